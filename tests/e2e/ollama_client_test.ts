import assert from "node:assert/strict";
import { Ollama } from "ollama";
import type { JsonObject } from "../../src/core/json.ts";
import { makeToken } from "../support/browser_tokens.ts";
import {
  chatCompletion,
  chatError,
  chatStream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, type TestHub, withHub } from "../support/test_hub.ts";

const USAGE = { promptTokens: 11, completionTokens: 7 };
const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const TOOL = {
  type: "function",
  function: {
    name: "weather",
    description: "Tells the weather",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};

const clientOf = (hub: TestHub, key = hub.key) =>
  new Ollama({ host: hub.url, headers: { authorization: `Bearer ${key}` } });

Deno.test("Ollama's own client talks with a model of any provider", async (t) => {
  const upstream = await startScriptedUpstream();
  const config = {
    providers: { up: { baseUrl: upstream.url, apiKey: "sk-up", maxRetries: 0, models: ["m"] } },
    defaultModel: "up/m",
  };
  const asked = () => upstream.requests.at(-1)?.json as JsonObject;
  try {
    await withHub(config, async (hub) => {
      const ollama = clientOf(hub);
      const hi = [{ role: "user", content: "Hi" }];

      await t.step("models and the version", async () => {
        const { models } = await ollama.list();
        assert.deepEqual(models.map(({ name, model }) => [name, model]), [["up/m", "up/m"]]);
        assert.deepEqual((await ollama.show({ model: "up/m" })).capabilities, [
          "completion",
          "tools",
        ]);
        const version = await hub.call("/api/version");
        assert.match((await version.json()).version, /^\d+\.\d+\.\d+$/);
        await assert.rejects(ollama.show({ model: "up/none" }), /up\/none/);
      });

      await t.step("a chat in pieces, with its usage and durations", async () => {
        upstream.script([chatStream({ reasoning: "Hm.", text: "Good day to you", usage: USAGE })]);
        const pieces = [];
        const options = { num_predict: 20, temperature: 0.5, seed: 3, num_ctx: 4096, top_k: 5 };
        for await (
          const piece of await ollama.chat({ model: "up/m", messages: hi, stream: true, options })
        ) pieces.push(piece);
        assert.equal(pieces.map(({ message }) => message.content).join(""), "Good day to you");
        assert.equal(pieces.map(({ message }) => message.thinking ?? "").join(""), "Hm.");
        const last = pieces.at(-1);
        assert.deepEqual(pieces.map(({ done }) => done).indexOf(true), pieces.length - 1);
        assert.deepEqual(
          [last?.done_reason, last?.prompt_eval_count, last?.eval_count, last?.model],
          ["stop", 11, 7, "up/m"],
        );
        assert.ok((last?.total_duration ?? 0) >= (last?.eval_duration ?? 1));
        const { max_tokens, max_completion_tokens, temperature, seed, ...rest } = asked();
        assert.deepEqual([max_tokens ?? max_completion_tokens, temperature, seed], [20, 0.5, 3]);
        assert.deepEqual(Object.keys(rest).sort(), [
          "messages",
          "model",
          "stream",
          "stream_options",
        ]);
      });

      await t.step("a whole chat with tools: calls and their results", async () => {
        upstream.script([
          chatCompletion({
            toolCalls: [{ name: "weather", arguments: { city: "Ulm" } }],
            usage: USAGE,
          }),
          chatCompletion({ text: "7 °C", usage: USAGE }),
        ]);
        const first = await ollama.chat({ model: "up/m", messages: hi, tools: [TOOL] });
        assert.deepEqual(first.message.tool_calls?.map((call) => call.function.arguments), [
          { city: "Ulm" },
        ]);
        assert.equal(first.done, true);
        const result = { role: "tool", content: "7", tool_name: "weather" };
        const messages = [...hi, first.message, result];
        const second = await ollama.chat({ model: "up/m", messages, tools: [TOOL] });
        assert.equal(second.message.content, "7 °C");
        const told = (asked()["messages"] as JsonObject[]).slice(1);
        const [call] = told[0]?.["tool_calls"] as JsonObject[];
        assert.equal(told[1]?.["tool_call_id"], call?.["id"]);
        assert.equal(told[1]?.["content"], "7");
      });

      await t.step("a prompt with an image, held to a schema", async () => {
        upstream.script([
          chatCompletion({ text: '{"colour":"red"}', usage: USAGE, finishReason: "length" }),
        ]);
        const format = { type: "object", properties: { colour: { type: "string" } } };
        const said = await ollama.generate({
          ...{ model: "up/m", prompt: "Which colour?", system: "Be short", images: [PNG], format },
          stream: false,
        });
        assert.deepEqual([said.response, said.done_reason], ['{"colour":"red"}', "length"]);
        const [system, user] = asked()["messages"] as JsonObject[];
        assert.equal(system?.["content"], "Be short");
        assert.match(JSON.stringify(user), /data:image\/png;base64,iVBOR/);
        assert.match(JSON.stringify(asked()["response_format"]), /colour/);
      });

      await t.step("failures, before an answer and in the middle of one", async () => {
        upstream.script([
          chatError(400, { message: "no such thing" }),
          chatStream({
            text: "One two three",
            errorFrameAfter: 2,
            error: { message: "broke off" },
          }),
        ]);
        await assert.rejects(ollama.chat({ model: "up/m", messages: hi }), /no such thing/);
        const stream = await ollama.chat({ model: "up/m", messages: hi, stream: true });
        await assert.rejects(async () => {
          for await (const _ of stream);
        }, /broke off/);
        await assert.rejects(ollama.chat({ model: "up/none", messages: hi }), /up\/none/);
        await assert.rejects(ollama.chat({ model: "agent/default", messages: hi }), /is an agent/);
        await assert.rejects(
          ollama.generate({ model: "up/m", prompt: "a", suffix: "b" }),
          /suffix is not served here/,
        );
        const lone = [{ role: "tool", content: "7", tool_name: "weather" }];
        await assert.rejects(ollama.chat({ model: "up/m", messages: lone }), /messages\[0\]/);
        const before = upstream.requests.length;
        const loaded = await ollama.chat({ model: "up/m", messages: [] });
        assert.deepEqual([loaded.done_reason, upstream.requests.length], ["load", before]);
      });

      await t.step("what a key may call holds here too, and what it calls is booked", async () => {
        const made = await (await hub.call("/v1/admin/keys", {
          body: { name: "small", policy: { models: ["up/other"] } },
        })).json();
        const small = clientOf(hub, made.token);
        assert.deepEqual((await small.list()).models, []);
        await assert.rejects(small.chat({ model: "up/m", messages: hi }), /up\/m/);
        await assert.rejects(clientOf(hub, "lh_wrong").list(), /API key/);
        const page = await makeToken(hub, { chatId: "c" });
        await assert.rejects(
          clientOf(hub, page.key).chat({ model: "up/m", messages: hi }),
          /browser token/,
        );
        const { db } = hub.hub.start;
        const rows = await eventually(async () => {
          const found = await db.read`select kind, public_model, prompt_tokens::int as tokens
            from hub.usage where outcome = 'ok'`;
          return found.length >= 4 ? found : null;
        });
        assert.ok(rows.every((row) => row["public_model"] === "up/m" && row["tokens"] === 11));
      });

      await t.step("a chat of an AI SDK client on the same path is one still", async () => {
        upstream.script([chatStream({ text: "Hello", usage: USAGE })]);
        const messages = [{ id: "1", role: "user", parts: [{ type: "text", text: "Hi" }] }];
        const reply = await hub.call("/api/chat", {
          body: { id: "chat-1", model: "up/m", messages },
        });
        assert.match(reply.headers.get("content-type") ?? "", /event-stream/);
        assert.match(await reply.text(), /Hello/);
        const wrong = await hub.call("/api/chat", { body: { messages } });
        assert.equal(wrong.status, 400);
        assert.doesNotMatch(await wrong.text(), /model/);
      });
    });
  } finally {
    await upstream.stop();
  }
});
