import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import {
  chatCompletion,
  chatError,
  chatStream,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { type TestHub, withHub } from "../support/test_hub.ts";

const messages = [{ role: "user" as const, content: "Hi" }];
const usage = { promptTokens: 9, completionTokens: 3, cachedTokens: 4 };
const asked = { model: "up/m", max_tokens: 100, messages };
const schema = { type: "object" as const, properties: { a: { type: "number" } } };
const tools = ["first", "second"].map((name) => ({ name, input_schema: schema }));
const CALLS = [
  { id: "c1", name: "first", arguments: { a: 1 }, pieces: 4 },
  { id: "c2", name: "second", arguments: { a: 22 }, pieces: 3 },
];

async function withChatHub(
  body: (parts: { hub: TestHub; upstream: ScriptedUpstream; client: Anthropic }) => Promise<void>,
): Promise<void> {
  const upstream = await startScriptedUpstream();
  try {
    const config = {
      providers: { up: { baseUrl: upstream.url, apiKey: "sk-own", maxRetries: 0 } },
      defaultModel: "up/m",
    };
    await withHub(config, async (hub) => {
      const client = new Anthropic({ apiKey: hub.key, baseURL: hub.url, maxRetries: 0 });
      await body({ hub, upstream, client });
    });
  } finally {
    await upstream.stop();
  }
}

Deno.test("the Anthropic client works with a provider of chat completions", async (t) => {
  await withChatHub(async ({ hub, upstream, client }) => {
    await t.step("create", async () => {
      upstream.script(chatCompletion({ text: "Hello", usage }));
      const { data, response } = await client.messages.create({
        ...asked,
        system: [{ type: "text", text: "Be brief", cache_control: { type: "ephemeral" } }],
        stop_sequences: ["END"],
        metadata: { user_id: "u" },
      }).withResponse();
      assert.match(data.id, /^msg_/);
      assert.deepEqual({ ...data, id: "" }, {
        id: "",
        type: "message",
        role: "assistant",
        model: "up/m",
        content: [{ type: "text", text: "Hello" }],
        stop_reason: "end_turn",
        stop_sequence: null,
        usage: {
          input_tokens: 5,
          output_tokens: 3,
          cache_creation_input_tokens: 0,
          cache_read_input_tokens: 4,
        },
      });
      assert.equal(response.headers.get("x-loophub-target"), "up/m");
      assert.deepEqual(JSON.parse(upstream.requests.at(-1)?.text ?? ""), {
        stop: ["END"],
        model: "m",
        messages: [{ role: "system", content: "Be brief" }, { role: "user", content: "Hi" }],
        stream: false,
        max_tokens: 100,
      });
      assert.equal(upstream.requests.at(-1)?.header("authorization"), "Bearer sk-own");
    });

    await t.step("stream: text, thinking and calls, which go back as they came", async () => {
      upstream.script(
        chatStream({ reasoning: "I see", text: "Two calls", toolCalls: CALLS, usage }),
      );
      const stream = client.messages.stream({
        ...asked,
        tools,
        thinking: { type: "adaptive" },
      });
      const events: string[] = [];
      stream.on("streamEvent", ({ type }) => events.at(-1) !== type && events.push(type));
      const message = await stream.finalMessage();
      assert.deepEqual(message.content.map((block) => block.type), [
        "thinking",
        "text",
        "tool_use",
        "tool_use",
      ]);
      const [thinking, text, first, second] = message.content;
      assert.ok(thinking?.type === "thinking" && thinking.thinking === "I see");
      assert.ok(text?.type === "text" && text.text === "Two calls");
      assert.deepEqual([first, second].map((call) => call?.type === "tool_use" && call.input), [
        { a: 1 },
        { a: 22 },
      ]);
      assert.equal(message.stop_reason, "tool_use");
      assert.equal(message.usage.input_tokens, 5);
      assert.equal(events[0], "message_start");
      assert.equal(events.at(-1), "message_stop");

      upstream.script(chatStream({ text: "Done", usage }));
      const last = await client.messages.stream({
        ...asked,
        tools,
        thinking: { type: "adaptive" },
        messages: [...messages, { role: "assistant", content: message.content }, {
          role: "user",
          content: [
            { type: "tool_result", tool_use_id: "c1", content: "one" },
            { type: "tool_result", tool_use_id: "c2", content: "broken", is_error: true },
            { type: "text", text: "Go on" },
          ],
        }],
      }).finalText();
      assert.equal(last, "Done");
      const sent = JSON.parse(upstream.requests.at(-1)?.text ?? "");
      assert.deepEqual(sent.messages.slice(1), [
        {
          role: "assistant",
          content: "Two calls",
          reasoning_content: "I see",
          tool_calls: CALLS.map(({ id, name, arguments: input }) => ({
            id,
            type: "function",
            function: { name, arguments: JSON.stringify(input) },
          })),
        },
        { role: "tool", tool_call_id: "c1", content: "one" },
        { role: "tool", tool_call_id: "c2", content: "Error: broken" },
        { role: "user", content: "Go on" },
      ]);
    });

    await t.step("toolRunner: without threads it sends the whole history", async () => {
      upstream.script([
        chatCompletion({ toolCalls: [{ id: "c9", name: "weather", arguments: { city: "Bern" } }] }),
        chatCompletion({ text: "It is 21 degrees" }),
      ]);
      const before = upstream.requests.length;
      const final = await client.beta.messages.toolRunner({
        model: "up/m",
        max_tokens: 100,
        messages: [{ role: "user", content: "Weather?" }],
        tools: [{
          type: "custom",
          name: "weather",
          description: "Weather",
          input_schema: { type: "object", properties: { city: { type: "string" } } },
          run: (input: unknown) => `21 in ${(input as { city: string }).city}`,
          parse: (input: unknown) => input,
        }],
      }).runUntilDone();
      assert.deepEqual(final.content, [{ type: "text", text: "It is 21 degrees" }]);
      assert.equal(upstream.requests.length, before + 2);
      const sent = JSON.parse(upstream.requests.at(-1)?.text ?? "");
      assert.deepEqual(sent.messages.at(-1), {
        role: "tool",
        tool_call_id: "c9",
        content: "21 in Bern",
      });
    });

    await t.step("errors are of Anthropic's classes, and tell whether to come again", async () => {
      const stranger = new Anthropic({ apiKey: "wrong", baseURL: hub.url, maxRetries: 0 });
      const failure = async (promise: PromiseLike<unknown>) => {
        try {
          await promise;
        } catch (error) {
          assert.ok(error instanceof Anthropic.APIError, String(error));
          const body = error.error as { error: { type: string; message: string } };
          return {
            name: error.constructor.name,
            type: body.error.type,
            retry: error.headers?.get("x-should-retry"),
            message: body.error.message,
          };
        }
        throw new Error("It did not fail");
      };
      const unknown = await failure(stranger.messages.create(asked));
      assert.equal(unknown.name, "AuthenticationError");
      assert.equal(unknown.type, "authentication_error");
      assert.equal(unknown.retry, "false");
      const missing = await failure(client.messages.create({ ...asked, model: "none/m" }));
      assert.equal(missing.type, "not_found_error");
      upstream.script(chatError(429, { message: "slow down" }));
      const limited = await failure(client.messages.create(asked));
      assert.equal(limited.name, "RateLimitError");
      assert.equal(limited.retry, null);
      upstream.script(
        chatError(400, { message: "Too many tokens", code: "context_length_exceeded" }),
      );
      const long = await failure(client.messages.create(asked));
      assert.equal(long.type, "invalid_request_error");
      assert.match(long.message, /prompt is too long/);
      const search = { type: "web_search_20250305" as const, name: "web_search" as const };
      const refused = await failure(client.messages.create({ ...asked, tools: [search] }));
      assert.match(refused.message, /web_search_20250305/);
      assert.equal(refused.retry, "false");
    });

    await t.step("a cut stream is an error, never an end", async () => {
      upstream.script(chatStream({ text: "one two three four", endAfter: 3, end: "cut" }));
      await assert.rejects(client.messages.stream(asked).finalMessage(), Anthropic.APIError);
    });
  });
});
