import assert from "node:assert/strict";
import OpenAI from "openai";
import { at } from "../support/at.ts";
import { zodlessFormat } from "../support/responses.ts";
import {
  chatCompletion,
  chatError,
  chatStream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { withHub } from "../support/test_hub.ts";

const usage = { promptTokens: 5, completionTokens: 3, cachedTokens: 2, reasoningTokens: 1 };
const tool = (name: string) => ({
  type: "function" as const,
  name,
  strict: false,
  description: `The ${name}`,
  parameters: { type: "object", properties: { a: { type: "number" } } },
});
const CALLS = [
  { id: "c1", name: "first", arguments: { a: 1 }, pieces: 4 },
  { id: "c2", name: "second", arguments: { a: 22 }, pieces: 3 },
];

Deno.test("the openai client's responses, over a provider of chat completions", async (t) => {
  const upstream = await startScriptedUpstream();
  try {
    const config = {
      providers: { up: { baseUrl: upstream.url, apiKey: "sk-own", maxRetries: 0 } },
      models: { known: { targets: ["up/m"] } },
      defaultModel: "known",
    };
    await withHub(config, async (hub) => {
      const client = new OpenAI({ apiKey: hub.key, baseURL: `${hub.url}/v1`, maxRetries: 0 });
      const sent = () => upstream.requests.at(-1)?.json ?? {};

      await t.step("create: a text is answered, settings travel", async () => {
        upstream.script(chatCompletion({ text: "Hello", usage }));
        const { data, response } = await client.responses.create({
          model: "known",
          instructions: "Be short",
          input: "Hi",
          max_output_tokens: 50,
          temperature: 0.5,
          reasoning: { effort: "low" },
          metadata: { a: "b" },
          user: "me",
        }).withResponse();
        assert.equal(data.output_text, "Hello");
        assert.equal(data.status, "completed");
        assert.match(data.id, /^resp_[0-9a-f]{32}$/);
        assert.deepEqual(data.metadata, { a: "b" });
        assert.equal(data.model, "known");
        assert.deepEqual(data.usage, {
          input_tokens: 5,
          input_tokens_details: { cached_tokens: 2, cache_write_tokens: 0 },
          output_tokens: 3,
          output_tokens_details: { reasoning_tokens: 1 },
          total_tokens: 8,
        });
        assert.equal(response.headers.get("x-loophub-target"), "up/m");
        assert.deepEqual(sent(), {
          reasoning_effort: "low",
          model: "m",
          messages: [
            { role: "system", content: "Be short" },
            { role: "user", content: "Hi" },
          ],
          stream: false,
          temperature: 0.5,
          max_tokens: 50,
        });
      });

      await t.step("stream: the helper gathers text, reasoning and parallel calls", async () => {
        upstream.script(
          chatStream({ reasoning: "Let me think", text: "I call", toolCalls: CALLS, usage }),
        );
        const stream = client.responses.stream({
          model: "known",
          input: [{ role: "user", content: "Call" }],
          tools: [tool("first"), tool("second")],
        });
        const types: string[] = [];
        const numbers: number[] = [];
        for await (const event of stream) {
          types.push(event.type);
          numbers.push(event.sequence_number);
        }
        const final = await stream.finalResponse();
        assert.deepEqual(numbers, numbers.map((_, index) => index));
        assert.equal(types.at(-1), "response.completed");
        assert.deepEqual(final.output.map(({ type }) => type), [
          "reasoning",
          "message",
          "function_call",
          "function_call",
        ]);
        assert.equal(final.output_text, "I call");
        const calls = final.output.filter((item) => item.type === "function_call");
        assert.deepEqual(calls.map((call) => [call.call_id, call.name, call.arguments]), [
          ["c1", "first", '{"a":1}'],
          ["c2", "second", '{"a":22}'],
        ]);
        assert.equal(sent().stream, true);
        assert.deepEqual(sent().stream_options, { include_usage: true });
      });

      await t.step("a loop over previous_response_id: the provider sees all of it", async () => {
        upstream.script(chatCompletion({ text: "Calling", toolCalls: CALLS, usage }));
        const first = await client.responses.create({
          model: "known",
          input: "Start",
          tools: [tool("first"), tool("second")],
        });
        upstream.script(chatStream({ text: "Done", usage }));
        const stream = client.responses.stream({
          model: "known",
          previous_response_id: first.id,
          input: [
            { type: "function_call_output", call_id: "c2", output: "two" },
            {
              type: "function_call_output",
              call_id: "c1",
              output: [{ type: "input_text", text: "one" }, { type: "input_text", text: "more" }],
            },
          ],
        });
        const second = await stream.finalResponse();
        assert.equal(second.previous_response_id, first.id);
        assert.deepEqual(sent().messages, [
          { role: "user", content: "Start" },
          {
            role: "assistant",
            content: "Calling",
            tool_calls: [
              { id: "c1", type: "function", function: { name: "first", arguments: '{"a":1}' } },
              { id: "c2", type: "function", function: { name: "second", arguments: '{"a":22}' } },
            ],
          },
          { role: "tool", tool_call_id: "c1", content: "one\nmore" },
          { role: "tool", tool_call_id: "c2", content: "two" },
        ]);
        upstream.script(chatCompletion({ text: "Third" }));
        await client.responses.create({
          model: "known",
          previous_response_id: second.id,
          input: "And?",
        });
        const messages = upstream.requests.at(-1)?.messages ?? [];
        assert.deepEqual(messages.slice(-2), [
          { role: "assistant", content: "Done" },
          { role: "user", content: "And?" },
        ]);
        assert.equal(messages.length, 6);
      });

      await t.step("stored: found, listed, deleted; unknown ones are told", async () => {
        upstream.script(chatCompletion({ text: "Keep me", usage }));
        const made = await client.responses.create({ model: "known", input: "Hi" });
        assert.equal((await client.responses.retrieve(made.id)).output_text, "Keep me");
        const items = await client.responses.inputItems.list(made.id);
        assert.equal(items.data.length, 1);
        assert.deepEqual(items.data[0], {
          type: "message",
          role: "user",
          content: [{ type: "input_text", text: "Hi" }],
          id: items.data[0]?.id,
        });
        await assert.rejects(client.responses.cancel(made.id), /synchronous/);
        await client.responses.delete(made.id);
        await assert.rejects(client.responses.retrieve(made.id), { status: 404 });
        await assert.rejects(
          client.responses.create({ model: "known", previous_response_id: made.id, input: "x" }),
          { status: 400, code: "previous_response_not_found", param: "previous_response_id" },
        );
        const unkept = await client.responses.create({ model: "known", input: "Hi", store: false });
        await assert.rejects(client.responses.retrieve(unkept.id), { status: 404 });
        await assert.rejects(
          client.responses.create({ model: "known", previous_response_id: unkept.id, input: "x" }),
          { code: "previous_response_not_found" },
        );
      });

      await t.step("parse: structured output", async () => {
        upstream.script(chatCompletion({ text: '{"n":7}' }));
        const parsed = await client.responses.parse({
          model: "known",
          input: "A number",
          text: { format: zodlessFormat() },
        });
        assert.deepEqual(parsed.output_parsed, { n: 7 });
        assert.equal(at(sent(), "response_format", "type"), "json_schema");
        assert.equal(at(sent(), "response_format", "json_schema", "name"), "answer");
        assert.equal(at(sent(), "response_format", "json_schema", "strict"), true);
      });

      await t.step("cut short: incomplete with its reason, streamed or not", async () => {
        for (const finishReason of ["length", "content_filter"]) {
          const reason = finishReason === "length" ? "max_output_tokens" : finishReason;
          upstream.script([
            chatCompletion({ text: "Half", finishReason }),
            chatStream({ text: "Half", finishReason }),
          ]);
          const whole = await client.responses.create({ model: "known", input: "x" });
          const streamed = await client.responses.stream({ model: "known", input: "x" })
            .finalResponse();
          for (const { status, incomplete_details, output_text } of [whole, streamed]) {
            assert.equal(status, "incomplete");
            assert.deepEqual(incomplete_details, { reason });
            assert.equal(output_text, "Half");
          }
        }
      });

      await t.step("errors before the answer are HTTP errors in OpenAI's shape", async () => {
        upstream.script(
          chatError(400, { message: "Too long", code: "context_length_exceeded" }),
        );
        await assert.rejects(client.responses.create({ model: "known", input: "x" }), {
          status: 400,
          code: "context_length_exceeded",
        });
        upstream.script(chatError(429, { headers: { "retry-after": "7" } }));
        for (const stream of [true, false]) {
          await assert.rejects(client.responses.create({ model: "known", input: "x", stream }), {
            status: 429,
          });
        }
        await assert.rejects(client.responses.create({ model: "nobody/x", input: "x" }), {
          status: 404,
          code: "model_not_found",
        });
      });
    });
  } finally {
    await upstream.stop();
  }
});
