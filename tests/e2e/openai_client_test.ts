import assert from "node:assert/strict";
import OpenAI from "openai";
import {
  chatCompletion,
  chatError,
  chatStream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { withHub } from "../support/test_hub.ts";

const messages = [{ role: "user" as const, content: "Hi" }];
const usage = { promptTokens: 5, completionTokens: 3 };
const TOOLS = ["first", "second"].map((name) => ({
  type: "function" as const,
  function: { name, parameters: { type: "object", properties: { a: { type: "number" } } } },
}));
const CALLS = [
  { id: "c1", name: "first", arguments: { a: 1 }, pieces: 4 },
  { id: "c2", name: "second", arguments: { a: 22 }, pieces: 3 },
];

Deno.test("the openai client works with the hub", async (t) => {
  const upstream = await startScriptedUpstream();
  try {
    const config = {
      providers: { up: { baseUrl: upstream.url, apiKey: "sk-own", maxRetries: 0 } },
      models: { known: { targets: ["up/m"] } },
      defaultModel: "known",
    };
    await withHub(config, async (hub) => {
      const clientOf = (apiKey: string) =>
        new OpenAI({ apiKey, baseURL: `${hub.url}/v1`, maxRetries: 0 });
      const client = clientOf(hub.key);
      const ask = (model = "up/m", by = client) => by.chat.completions.create({ model, messages });

      await t.step("models: the list, and one by provider/model", async () => {
        const page = await client.models.list();
        assert.deepEqual(page.data.map(({ id }) => id), ["known", "agent/default"]);
        const model = await client.models.retrieve("up/vendor/model-1");
        assert.equal(model.id, "up/vendor/model-1");
        assert.equal(model.owned_by, "up");
      });

      await t.step("create: the upstream sees the same request with its own key", async () => {
        upstream.script(chatCompletion({ text: "Hello", usage }));
        const { data, response } = await client.chat.completions.create({
          model: "up/vendor/model-1",
          messages,
          temperature: 0.5,
          metadata: { é: "☃" },
        }).withResponse();
        assert.equal(data.choices[0]?.message.content, "Hello");
        assert.equal(data.usage?.prompt_tokens, 5);
        assert.match(response.headers.get("x-request-id") ?? "", /^req_/);
        assert.equal(response.headers.get("x-loophub-target"), "up/vendor/model-1");
        const sent = upstream.requests.at(-1);
        assert.equal(sent?.path, "/v1/chat/completions");
        assert.equal(
          sent?.text,
          '{"model":"vendor/model-1","messages":[{"role":"user","content":"Hi"}],' +
            '"temperature":0.5,"metadata":{"é":"☃"}}',
        );
        const keys = sent?.headers.filter(([name]) => name.toLowerCase() === "authorization");
        assert.deepEqual(keys?.map(([, value]) => value), ["Bearer sk-own"]);
        const all = JSON.stringify(sent?.headers);
        assert.ok(!all.includes(hub.key) && !/stainless|cookie/i.test(all), all);
      });

      await t.step("a stream is iterated to its end; usage is asked for upstream", async () => {
        upstream.script(chatStream({ text: "one two three", usage }));
        let text = "";
        let chunks = 0;
        for await (
          const chunk of await client.chat.completions.create({
            model: "known",
            messages,
            stream: true,
          })
        ) {
          chunks++;
          assert.ok(
            chunk.choices.length > 0 && !chunk.usage,
            "no frame the client did not ask for",
          );
          text += chunk.choices[0]?.delta.content ?? "";
        }
        assert.deepEqual([text, chunks], ["one two three", 5]);
        assert.deepEqual(upstream.requests.at(-1)?.json, {
          model: "m",
          messages,
          stream: true,
          stream_options: { include_usage: true },
        });
      });

      await t.step("tool calls: whole, and in deltas", async () => {
        upstream.script(chatCompletion({ toolCalls: CALLS }));
        const whole = await client.chat.completions.create({
          model: "up/m",
          messages,
          tools: TOOLS,
        });
        assert.equal(whole.choices[0]?.finish_reason, "tool_calls");
        assert.equal(whole.choices[0]?.message.tool_calls?.length, 2);
        upstream.script(chatStream({ toolCalls: CALLS }));
        const streamed = await client.chat.completions.create({
          model: "up/m",
          messages,
          tools: TOOLS,
          stream: true,
        });
        const args = ["", ""];
        let deltas = 0;
        for await (const chunk of streamed) {
          for (const call of chunk.choices[0]?.delta.tool_calls ?? []) {
            args[call.index] += call.function?.arguments ?? "";
            deltas++;
          }
        }
        assert.deepEqual(args, ['{"a":1}', '{"a":22}']);
        assert.ok(deltas > 6, `only ${deltas} deltas`);
        assert.deepEqual(upstream.requests.at(-1)?.json.tools, TOOLS);
      });

      await t.step("the stream helper builds the completion, usage included if asked", async () => {
        upstream.script(chatStream({ text: "Well. ", toolCalls: CALLS, usage }));
        const seen: string[] = [];
        const helper = client.chat.completions.stream({
          model: "up/m",
          messages,
          tools: TOOLS,
          stream_options: { include_usage: true },
        });
        helper.on("content", (delta) => void seen.push(delta));
        const final = await helper.finalChatCompletion();
        assert.deepEqual(seen, ["Well. "]);
        const ids = final.choices[0]?.message.tool_calls?.map(({ id }) => id);
        assert.deepEqual(ids, ["c1", "c2"]);
        assert.equal(final.usage?.total_tokens, 8);
      });

      await t.step("parse gives the structured output", async () => {
        const json_schema = {
          name: "place",
          strict: true,
          schema: {
            type: "object",
            properties: { city: { type: "string" } },
            required: ["city"],
            additionalProperties: false,
          },
        };
        const response_format = { type: "json_schema" as const, json_schema };
        upstream.script(chatCompletion({ text: '{"city":"Lisbon"}' }));
        const parsed = await client.chat.completions.parse({
          model: "up/m",
          messages,
          response_format,
        });
        assert.deepEqual(parsed.choices[0]?.message.parsed, { city: "Lisbon" });
        assert.deepEqual(upstream.requests.at(-1)?.json.response_format, response_format);
      });

      await t.step("abort: the client throws and the upstream is left", async () => {
        upstream.script(chatStream({ text: "a b c", endAfter: 3, end: "stall" }));
        const controller = new AbortController();
        const before = upstream.closedByClient.length;
        const streamed = await client.chat.completions.create(
          { model: "up/m", messages, stream: true },
          { signal: controller.signal },
        );
        // The client ends the iteration quietly when its own abort stops it.
        for await (const chunk of streamed) if (chunk.choices[0]?.delta.content) controller.abort();
        await upstream.until(() => upstream.closedByClient.length > before);
        upstream.script({ frames: [], end: "stall", before: [{ wait: new Promise(() => {}) }] });
        const waiting = new AbortController();
        const requests = upstream.requests.length;
        const asked = client.chat.completions.create({ model: "up/m", messages }, {
          signal: waiting.signal,
        });
        const rejected = assert.rejects(asked, OpenAI.APIUserAbortError);
        await upstream.until(() => upstream.requests.length > requests);
        waiting.abort();
        await rejected;
        await upstream.until(() => upstream.closedByClient.length > before + 1);
      });

      await t.step("every error is the client's own class with the provider's facts", async () => {
        type ErrorClass = new (...args: never[]) => InstanceType<typeof OpenAI.APIError>;
        const fails = async (asked: Promise<unknown>, kind: ErrorClass) => {
          const error = await asked.then(() => null, (error) => error);
          assert.ok(error instanceof kind, `${error?.constructor.name}: ${error?.message}`);
          assert.match(error.requestID ?? "", /^req_/);
          return error;
        };
        const before = upstream.requests.length;
        await fails(ask("up/m", clientOf("lh_wrong")), OpenAI.AuthenticationError);
        await fails(ask("up/m", clientOf(`${hub.key}x`)), OpenAI.AuthenticationError);
        const missing = await fails(ask("knwon"), OpenAI.NotFoundError);
        assert.deepEqual([missing.code, missing.param], ["model_not_found", "model"]);
        assert.match(missing.message, /known/);
        assert.equal(upstream.requests.length, before);

        upstream.script(chatError(400, { message: "too hot", type: "x", code: "bad_heat" }));
        const bad = await fails(ask(), OpenAI.BadRequestError);
        assert.match(bad.message, /too hot/);
        assert.equal(bad.code, "bad_heat");
        for (
          const [status, kind] of [[429, OpenAI.RateLimitError], [503, OpenAI.APIError]] as const
        ) {
          const headers = {
            "retry-after": "90",
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-reset-requests": "90s",
            "set-cookie": "a=b",
          };
          upstream.script(chatError(status, { headers }));
          const limited = await fails(ask(`up/limited-${status}`), kind);
          assert.equal(limited.status, status);
          assert.equal(limited.headers?.get("retry-after"), "90");
          assert.equal(limited.headers?.get("x-ratelimit-remaining-requests"), "0");
          assert.equal(limited.headers?.get("x-ratelimit-reset-requests"), "90s");
          assert.equal(limited.headers?.get("set-cookie"), null);
        }
        upstream.script(chatError(422, { message: "no such field" }));
        await fails(ask(), OpenAI.UnprocessableEntityError);
        for (const end of ["cut", "reset"] as const) {
          upstream.script(chatStream({ text: "one two three", endAfter: 3, end }));
          const broken = await client.chat.completions.create({
            model: `up/broken-${end}`,
            messages,
            stream: true,
          });
          let heard = "";
          await assert.rejects(async () => {
            for await (const chunk of broken) heard += chunk.choices[0]?.delta.content ?? "";
          }, OpenAI.APIError);
          assert.equal(heard, "one two ");
        }
        const slow = client.withOptions({ timeout: 50 });
        upstream.script({ before: [{ wait: new Promise(() => {}) }], body: "" });
        await assert.rejects(
          slow.chat.completions.create({ model: "up/slow", messages }),
          OpenAI.APIConnectionTimeoutError,
        );
        for (const status of [500, 503, 401, 403]) {
          upstream.script(chatError(status, { message: "inner words" }));
          const error = await fails(ask(`up/e${status}`), OpenAI.InternalServerError);
          assert.equal(/inner words/.test(error.message), status >= 500);
          assert.equal(error.status, status < 500 ? 502 : status);
          const streamed = client.chat.completions.create({
            model: `up/s${status}`,
            messages,
            stream: true,
          });
          await fails(streamed, OpenAI.InternalServerError);
        }
      });
    });
  } finally {
    await upstream.stop();
  }
});
