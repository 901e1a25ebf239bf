import assert from "node:assert/strict";
import OpenAI from "openai";
import type { JsonObject } from "../../src/core/json.ts";
import {
  chatCompletion,
  chatError,
  chatFrames,
  chatStream,
  type Reply,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, type TestHub, tookUnder, withHub } from "../support/test_hub.ts";

const MESSAGES = [{ role: "user" as const, content: "Hi" }];
const USAGE = { promptTokens: 5, completionTokens: 3 };

function configOf(upstream: ScriptedUpstream, second = upstream): JsonObject {
  return {
    providers: {
      one: { baseUrl: upstream.url, apiKey: "sk-upstream-one", maxRetries: 1 },
      two: { baseUrl: second.url, apiKey: "sk-upstream-two", maxRetries: 0 },
      mistral: { baseUrl: upstream.url, apiKey: "sk-upstream-three" },
      hasty: {
        baseUrl: upstream.url,
        apiKey: "sk-upstream-four",
        maxRetries: 1,
        timeouts: { firstTokenMs: 300 },
      },
      // Long enough for pauses that a busy machine makes.
      restless: {
        baseUrl: second.url,
        apiKey: "sk-upstream-five",
        maxRetries: 0,
        timeouts: { inactivityMs: 1000 },
      },
    },
    models: {
      both: { targets: ["one/a", "two/b"] },
      hurried: { targets: ["hasty/a", "two/b"] },
      alias: "both",
    },
    defaultModel: "both",
  };
}

const stream = (hub: TestHub, model = "one/m") =>
  hub.call("/v1/chat/completions", {
    body: { model, stream: true, messages: MESSAGES },
  });

Deno.test("the proxy, end to end", async (t) => {
  const upstream = await startScriptedUpstream();
  const second = await startScriptedUpstream();
  try {
    await withHub(configOf(upstream, second), async (hub) => {
      const client = new OpenAI({ apiKey: hub.key, baseURL: `${hub.url}/v1`, maxRetries: 0 });

      await t.step("models are listed and found", async () => {
        const ids = [];
        for await (const model of await client.models.list()) ids.push(model.id);
        assert.deepEqual(ids.toSorted(), ["agent/default", "alias", "both", "hurried"]);
        assert.equal((await client.models.retrieve("one/any")).id, "one/any");
        await assert.rejects(client.models.retrieve("nobody/x"), OpenAI.NotFoundError);
      });

      await t.step(
        "a completion reaches the upstream with nothing changed but the model",
        async () => {
          upstream.script(chatCompletion({ text: "Hello", usage: USAGE }));
          const body = '{ "x_unknown": [1, {"a":"\\u00e9"}],"model" : "one/gpt","messages":[]  }';
          const answer = await fetch(`${hub.url}/v1/chat/completions`, {
            method: "POST",
            headers: { authorization: `Bearer ${hub.key}`, "content-type": "application/json" },
            body,
          });
          assert.equal(answer.status, 200);
          assert.match(answer.headers.get("x-request-id") ?? "", /^req_/);
          assert.match(answer.headers.get("x-loophub-overhead-ms") ?? "", /^\d/);
          const sent = upstream.requests.at(-1);
          assert.equal(new TextDecoder().decode(sent?.body), body.replace("one/gpt", "gpt"));
          assert.equal(sent?.header("authorization"), "Bearer sk-upstream-one");
          assert.equal(sent?.headers.some(([, value]) => value.includes(hub.key)), false);
          assert.equal((await answer.json()).choices[0].message.content, "Hello");
        },
      );

      await t.step(
        "a stream passes byte for byte, and the hub's own usage frame stays here",
        async () => {
          upstream.script(chatStream({ text: "Hello there", usage: USAGE }));
          const frames = chatFrames({ text: "Hello there", usage: USAGE });
          const text = await (await stream(hub)).text();
          assert.equal(text, frames.filter((frame) => !frame.includes('"usage"')).join(""));
          assert.equal(
            (upstream.requests.at(-1)?.json as JsonObject)["stream_options"] !== undefined,
            true,
          );
          const asked = await client.chat.completions.create({
            model: "alias",
            stream: true,
            stream_options: { include_usage: true },
            messages: MESSAGES,
          });
          let usage: unknown = null;
          for await (const chunk of asked) usage = chunk.usage ?? usage;
          assert.equal((usage as { prompt_tokens: number }).prompt_tokens, 5);
        },
      );

      await t.step("a provider that does not know stream_options is not sent any", async () => {
        const frames = chatFrames({ text: "Hello there", usage: USAGE });
        upstream.script(chatStream({ text: "Hello there", usage: USAGE }));
        const text = await (await stream(hub, "mistral/m")).text();
        assert.equal(text, frames.join(""), "its own usage frame is nobody's extra");
        const sent = upstream.requests.at(-1)?.json as JsonObject;
        assert.deepEqual(Object.keys(sent).toSorted(), ["messages", "model", "stream"]);
      });

      await t.step("the client's helpers work: tools, stream helper, parsed output", async () => {
        const toolCalls = [{ name: "f", arguments: { a: 1 } }];
        upstream.script(chatStream({ toolCalls, usage: USAGE }));
        const tool = { type: "function" as const, function: { name: "f", parameters: {} } };
        const helper = client.chat.completions.stream({
          model: "one/m",
          messages: MESSAGES,
          tools: [tool],
        });
        const final = await helper.finalChatCompletion();
        const call = final.choices[0]?.message.tool_calls?.[0];
        assert.equal(call?.type === "function" && call.function.arguments, '{"a":1}');
        upstream.script(chatCompletion({ text: '{"city":"Lisbon"}' }));
        const parsed = await client.chat.completions.parse({
          model: "one/m",
          messages: MESSAGES,
          response_format: {
            type: "json_schema",
            json_schema: { name: "c", strict: true, schema: { type: "object", properties: {} } },
          },
        });
        assert.deepEqual(parsed.choices[0]?.message.parsed, { city: "Lisbon" });
      });

      await t.step("errors are the client's own classes", async () => {
        const ask = (key = hub.key, model = "one/m") =>
          new OpenAI({ apiKey: key, baseURL: `${hub.url}/v1`, maxRetries: 0 }).chat.completions
            .create({ model, messages: MESSAGES });
        await assert.rejects(ask("lh_wrong"), OpenAI.AuthenticationError);
        await assert.rejects(ask(hub.key, "nope"), OpenAI.NotFoundError);
        upstream.script(chatError(400, { message: "bad field", code: "context_length_exceeded" }));
        await assert.rejects(ask(), (error) => {
          assert.ok(error instanceof OpenAI.BadRequestError);
          assert.equal(error.code, "context_length_exceeded");
          assert.equal(error.headers?.get("x-should-retry"), "false");
          return true;
        });
        upstream.script(chatError(429, { headers: { "retry-after": "120" } }));
        await assert.rejects(ask(), (error) => {
          assert.ok(error instanceof OpenAI.RateLimitError);
          assert.equal(error.headers?.get("retry-after"), "120");
          return true;
        });
        upstream.script(chatError(500, { message: "No GPU is free at gpu-3.acme.internal:8000" }));
        await assert.rejects(ask(), (error) => {
          assert.ok(error instanceof OpenAI.InternalServerError);
          assert.equal(error.message, "500 No GPU is free at [address]");
          return true;
        });
      });

      await t.step(
        "a failure before the first content is tried again, then goes to the next target",
        async () => {
          for (const end of ["cut", "reset", "stall"] as const) {
            upstream.script(chatStream({ text: "lost", endAfter: 1, end }));
            second.script(chatStream({ text: "found" }));
            const model = end === "stall" ? "hurried" : "both";
            const text = await (await stream(hub, model)).text();
            assert.match(text, /found/);
            assert.doesNotMatch(text, /lost/);
          }
          upstream.script(chatStream({ text: "x", errorFrameAfter: 1 }));
          assert.match(await (await stream(hub, "both")).text(), /found/);
          upstream.script(chatError(401));
          assert.match(await (await stream(hub, "both")).text(), /found/);
        },
      );

      await t.step(
        "a failure after the first content is an error frame and a broken connection",
        async () => {
          for (const end of ["cut", "reset", "stall"] as const) {
            second.script(chatStream({ text: "one two three", endAfter: 3, end }));
            const answer = await stream(hub, end === "stall" ? "restless/m" : "two/m");
            assert.equal(answer.status, 200);
            let text = "";
            await assert.rejects(async () => {
              for await (const chunk of answer.body ?? []) text += new TextDecoder().decode(chunk);
            });
            assert.match(text, /one/);
            assert.match(text, /data: \{"error":\{"message":/);
            assert.doesNotMatch(text, /\[DONE\]|"finish_reason":"/);
          }
        },
      );

      await t.step("a malformed frame is not fatal by itself", async () => {
        const [first = "", ...rest] = chatFrames({ text: "still here" });
        second.script({
          headers: { "content-type": "text/event-stream" },
          frames: [first, "data: {broken\n\n", ...rest],
        });
        assert.match(
          await (await stream(hub, "two/m")).text(),
          /broken[\s\S]*still[\s\S]*\[DONE\]/,
        );
      });

      let left = 0;
      await t.step("a client that leaves stops the upstream within 250 ms", async () => {
        const never: Reply = { before: [{ wait: new Promise(() => {}) }], body: "" };
        const phases: [readsFirst: boolean, Reply][] = [
          [false, never],
          [true, chatStream({ text: "a b c", endAfter: 3, end: "stall" })],
        ];
        for (const [readsFirst, reply] of phases) {
          second.script(reply);
          await tookUnder(250, async () => {
            const before = second.requests.length;
            const abort = new AbortController();
            const closes = second.closedByClient.length;
            const asked = hub.call("/v1/chat/completions", {
              body: { model: "two/m", stream: readsFirst, messages: MESSAGES },
              signal: abort.signal,
            });
            if (readsFirst) await (await asked).body?.getReader().read();
            else await second.until(() => second.requests.length > before);
            left++;
            const leftMs = performance.now();
            abort.abort();
            await asked.catch(() => {});
            await second.until(() => second.closedByClient.length > closes);
            return performance.now() - leftMs;
          });
        }
      });

      await t.step("every end is one usage row", async () => {
        const wanted = ["ok", "error", "cut", "timeout", "aborted"];
        await eventually(async () => {
          const rows = await hub.hub.start.db.read<{ outcome: string; n: number }[]>`
            select outcome, count(*)::int as n from hub.usage group by outcome`;
          const found = new Map(rows.map((row) => [row.outcome, row.n]));
          return found.get("aborted") === left && wanted.every((outcome) => found.has(outcome))
            ? found
            : null;
        });
      });

      await t.step("the same request as a UIMessage stream", async () => {
        upstream.script(() => chatStream({ text: "Hi you", usage: USAGE }));
        const body = { model: "one/m", stream: true, messages: MESSAGES };
        for (
          const answer of [
            await hub.call("/v1/chat/completions", { body, headers: { "hub-stream": "ui" } }),
            await hub.call("/v1/chat/completions?stream_format=ui", { body }),
          ]
        ) {
          const text = await answer.text();
          const types = [...text.matchAll(/"type":"([a-z-]+)"/g)].map((match) => match[1]);
          // How many deltas there are depends on how the frames arrive.
          assert.deepEqual(types.filter((type, index) => type !== types[index - 1]), [
            "start",
            "step-start",
            "text-start",
            "text-delta",
            "text-end",
            "step-finish",
            "finish",
          ]);
          const deltas = [...text.matchAll(/"delta":"([^"]*)"/g)].map((match) => match[1]);
          assert.equal(deltas.join(""), "Hi you");
        }
      });

      await t.step("bad requests are told what is wrong and reach nobody", async () => {
        const before = upstream.requests.length;
        const post = (body: string) =>
          fetch(`${hub.url}/v1/chat/completions`, {
            method: "POST",
            headers: { authorization: `Bearer ${hub.key}`, "content-type": "application/json" },
            body,
          });
        const cases: [string, number, RegExp][] = [
          ['{"model":', 400, /at byte 9/],
          ['{"model":"one/m","model":"one/x"}', 400, /twice/],
          ['{"model":"one/m","mod\\u0065l":"one/x"}', 400, /twice/],
          [`{"model":"one/m","a":${"[".repeat(100)}${"]".repeat(100)}}`, 400, /levels deep/],
          ['{"model":7}', 400, /model must be/],
          ["[]", 400, /JSON object/],
        ];
        for (const [body, status, message] of cases) {
          const answer = await post(body);
          assert.equal(answer.status, status, body);
          assert.match((await answer.json()).error.message, message);
        }
        const large = await post(`{"model":"${"x".repeat(33 * 1024 * 1024)}"}`).then(
          (answer) => answer.body?.cancel().then(() => answer.status),
          () => 413,
        );
        assert.equal(large, 413);
        assert.equal(upstream.requests.length, before);
      });
    });
  } finally {
    await upstream.stop();
    await second.stop();
  }
});
