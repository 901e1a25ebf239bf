import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { type Reply, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { withHub } from "../support/test_hub.ts";
import { type ContractAnswer, testDialect } from "./dialect_contract.ts";

const SIGNATURE = "c2lnbmVkIQ==";

const sse = (event: { type: string } & JsonObject) =>
  `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;

function blocksOf({ text = [], reasoning, calls = [] }: ContractAnswer): JsonObject[] {
  return [
    ...(reasoning === undefined
      ? []
      : [{ type: "thinking", thinking: reasoning, signature: SIGNATURE }]),
    ...(text.length === 0 ? [] : [{ type: "text", text: text.join(""), citations: null }]),
    ...calls.map(({ name, arguments: input }, index) => ({
      type: "tool_use",
      id: `toolu_${index}`,
      name,
      input: input as JsonObject,
    })),
  ];
}

function reasonOf({ finish, calls = [] }: ContractAnswer): string {
  if (finish === "length") return "max_tokens";
  return calls.length > 0 ? "tool_use" : "end_turn";
}

const message = (content: JsonObject[], more: JsonObject): JsonObject => ({
  id: "msg_01",
  type: "message",
  role: "assistant",
  model: "m-20261001",
  content,
  stop_reason: null,
  stop_sequence: null,
  ...more,
});

/** The events of one block: its beginning without content, its content in pieces, its end. */
function eventsOf(block: JsonObject, index: number, text: string[]): string[] {
  const start = (content_block: JsonObject) =>
    sse({ type: "content_block_start", index, content_block });
  const delta = (delta: JsonObject) => sse({ type: "content_block_delta", index, delta });
  const stop = sse({ type: "content_block_stop", index });
  if (block["type"] === "text") {
    const pieces = text.map((piece) => delta({ type: "text_delta", text: piece }));
    return [start({ type: "text", text: "" }), ...pieces, stop];
  }
  if (block["type"] === "thinking") {
    return [
      start({ type: "thinking", thinking: "", signature: "" }),
      delta({ type: "thinking_delta", thinking: String(block["thinking"]) }),
      delta({ type: "signature_delta", signature: SIGNATURE }),
      stop,
    ];
  }
  const json = JSON.stringify(block["input"]);
  return [
    start({ ...block, input: {} }),
    ...["", json.slice(0, 5), json.slice(5)].map((partial_json) =>
      delta({ type: "input_json_delta", partial_json })
    ),
    stop,
  ];
}

testDialect({
  kind: "anthropic",
  baseUrl: (origin) => origin,
  path: () => "/v1/messages",
  credential: ["x-api-key", "sk-up"],
  streamType: "text/event-stream; charset=utf-8",
  whole: (answer) =>
    message(blocksOf(answer), {
      stop_reason: reasonOf(answer),
      ...(answer.usage === undefined ? {} : {
        usage: {
          input_tokens: answer.usage.prompt - 2,
          cache_read_input_tokens: 2,
          cache_creation_input_tokens: null,
          output_tokens: answer.usage.completion,
        },
      }),
    }),
  frames(answer) {
    const { usage } = answer;
    const blocks = blocksOf(answer).map((block, index) =>
      eventsOf(block, index, answer.text ?? [])
    );
    const start = sse({
      type: "message_start",
      message: message(
        [],
        usage === undefined ? {} : {
          usage: { input_tokens: usage.prompt - 2, cache_read_input_tokens: 2, output_tokens: 1 },
        },
      ),
    });
    const end = sse({
      type: "message_delta",
      delta: { stop_reason: reasonOf(answer), stop_sequence: null },
      ...(usage === undefined ? {} : { usage: { output_tokens: usage.completion } }),
    });
    const before = [start, sse({ type: "ping" }), blocks[0]?.[0] ?? ""];
    const content = [...blocks[0]?.slice(1) ?? [], ...blocks.slice(1).flat()];
    return {
      frames: [...before, ...content, end, sse({ type: "message_stop" })],
      before: before.length,
    };
  },
  malformed: 'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"del\n\n',
  errorFrame: (text) => sse({ type: "error", error: { type: "overloaded_error", message: text } }),
  errorBody: (status, text) => ({
    type: "error",
    error: { type: status < 500 ? "invalid_request_error" : "api_error", message: text },
    request_id: "req_1",
  }),
  tooLong: {
    status: 400,
    body: {
      type: "error",
      error: {
        type: "invalid_request_error",
        message: "prompt is too long: 208310 tokens > 200000 maximum",
      },
    },
  },
  resultsIn: (request) =>
    (request.json.messages as { content: JsonObject[] }[]).flatMap(({ content }) =>
      content.flatMap((block) => block["type"] === "tool_result" ? [String(block["content"])] : [])
    ),
  failuresIn: (request) =>
    (request.json.messages as { content: JsonObject[] }[]).flatMap(({ content }) =>
      content.flatMap((block) => block["is_error"] === true ? [String(block["content"])] : [])
    ),
  signature: `"signature":"${SIGNATURE}"`,
});

const errorReply = (status: number, type: string, text: string): Reply => ({
  status,
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ type: "error", error: { type, message: text } }),
});

Deno.test("overload is tried again, an account without credit gives way to the next target", async () => {
  const upstream = await startScriptedUpstream();
  const provider = {
    kind: "anthropic",
    baseUrl: new URL(upstream.url).origin,
    apiKey: "sk-one",
    maxRetries: 1,
  };
  const config = {
    providers: { one: provider, two: { ...provider, apiKey: "sk-two" } },
    models: { both: { targets: ["one/m", "two/m"] } },
    defaultModel: "both",
  };
  const good: Reply = {
    headers: { "content-type": "application/json" },
    body: message([{ type: "text", text: "Hi" }], { stop_reason: "end_turn" }),
  };
  try {
    await withHub(config, async (hub) => {
      const asked = async (...replies: Reply[]) => {
        const from = upstream.requests.length;
        upstream.script(replies);
        const body = { model: "both", messages: [{ role: "user", content: "Hi" }] };
        const answer = await hub.call("/v1/chat/completions", { body });
        assert.equal(answer.status, 200, await answer.text());
        return upstream.requests.slice(from).map((request) => request.header("x-api-key"));
      };
      assert.deepEqual(
        await asked(errorReply(529, "overloaded_error", "Overloaded"), good),
        ["sk-one", "sk-one"],
      );
      const poor = "Your credit balance is too low to access the Anthropic API.";
      assert.deepEqual(
        await asked(errorReply(400, "invalid_request_error", poor), good),
        ["sk-one", "sk-two"],
      );
    });
  } finally {
    await upstream.stop();
  }
});
