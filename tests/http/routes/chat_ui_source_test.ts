import assert from "node:assert/strict";
import { checkLog } from "../../../src/core/check_log.ts";
import { HubError } from "../../../src/core/error.ts";
import type { HubEvent, SequencedEvent } from "../../../src/core/event.ts";
import { createIdSource } from "../../../src/core/id.ts";
import { chatUiSource } from "../../../src/http/routes/chat_ui_source.ts";
import type { ShownAnswer } from "../../../src/http/routes/completion_reply.ts";
import { chatFrames, type ChatStreamOptions } from "../../support/chat_replies.ts";
import { randomBytes } from "../fixture.ts";

const ids = createIdSource(() => 0, randomBytes);
const usage = { promptTokens: 5, completionTokens: 3 };
const CUT = new HubError("upstream_cut", "The provider's stream ended before its answer did");

/** An answer of these bytes, some at a time, that ends well or with a failure. */
function answerOf(text: string, { size, failure }: { size: number; failure?: HubError }) {
  const bytes = new TextEncoder().encode(text);
  const cancelled: HubError[] = [];
  let at = 0;
  const answer = {
    from: { provider: "acme", model: "acme-1", override: {} },
    read() {
      if (at < bytes.length) return Promise.resolve(bytes.slice(at, at += size));
      return failure === undefined ? Promise.resolve(null) : Promise.reject(failure);
    },
    cancel: (reason: HubError) => cancelled.push(reason),
  } as unknown as ShownAnswer;
  return { answer, cancelled };
}

/** Everything that is emitted for an answer; the log must be valid. */
async function emitted(opened: Promise<ShownAnswer>): Promise<HubEvent[]> {
  const source = chatUiSource(opened, { ids, model: "smart" });
  let text = "";
  for (let bytes = await source.pull(); bytes !== null; bytes = await source.pull()) {
    text += new TextDecoder().decode(bytes);
  }
  assert.ok(text.endsWith("data: [DONE]\n\n"));
  const log = [...text.matchAll(/^id: (\d+)\ndata: (.*)$/gm)]
    .map(([, seq, data]): SequencedEvent => ({ seq: Number(seq), event: JSON.parse(data ?? "") }));
  assert.deepEqual(checkLog(log), []);
  return log.map(({ event }) => event);
}

/** What is said of the calls, of the step and of the run, however the bytes are cut. */
async function endings(options: ChatStreamOptions, failure?: HubError): Promise<string[]> {
  const text = chatFrames(options).join("");
  const seen = new Set<string>();
  for (const size of [1, 7, 64, text.length]) {
    const { answer, cancelled } = answerOf(
      text,
      failure === undefined ? { size } : { size, failure },
    );
    const events = await emitted(Promise.resolve(answer));
    const said = events.flatMap((event) => {
      if (event.type === "step-finish") return [`step ${event.finishReason}`];
      if (event.type === "finish") return [`run ${event.finishReason}`];
      if (event.type === "tool-input-available") return [`call ${JSON.stringify(event.input)}`];
      if (event.type === "tool-input-error") return [`bad call: ${event.errorText}`];
      if (event.type === "tool-output-error") return [`no output: ${event.errorText}`];
      return event.type === "error" ? [`error ${event.code}`] : [];
    });
    seen.add(JSON.stringify(said));
    assert.equal(cancelled.length > 0, said.some((one) => one.startsWith("error ")));
  }
  assert.equal(seen.size, 1, [...seen].join("\n"));
  return JSON.parse([...seen][0] ?? "[]");
}

const call = (args: string) => ({ name: "look", arguments: args });

Deno.test("calls of a proxied stream wait for the client", async () => {
  assert.deepEqual(
    await endings({ text: "Let me see", toolCalls: [call('{"a":1}'), call("")], usage }),
    ['call {"a":1}', "call {}", "step tool-calls", "run waiting"],
  );
  assert.deepEqual(
    await endings({ toolCalls: [call('{"a":1}')], finishReason: "stop" }),
    ['call {"a":1}', "step tool-calls", "run waiting"],
  );
});

Deno.test("calls whose arguments cannot be used are over", async () => {
  const bad = "bad call: The arguments are not valid JSON";
  assert.deepEqual(await endings({ toolCalls: [call('{"a"')] }), [
    bad,
    "step tool-calls",
    "run tool-calls",
  ]);
  assert.deepEqual(await endings({ toolCalls: [call("{}"), call("")], finishReason: "length" }), [
    "call {}",
    bad,
    "step length",
    "run waiting",
  ]);
  assert.deepEqual(await endings({ toolCalls: [call("{}")], finishReason: "content_filter" }), [
    "call {}",
    "step content-filter",
    "no output: interrupted",
    "run content-filter",
  ]);
});

Deno.test("an answer without calls ends as the model says", async () => {
  assert.deepEqual(await endings({ text: "Hi", reasoning: "Hm", usage }), [
    "step stop",
    "run stop",
  ]);
  assert.deepEqual(await endings({ text: "Hi", finishReason: "tool_calls" }), [
    "step stop",
    "run stop",
  ]);
  assert.deepEqual(await endings({ text: "Hi", finishReason: "length" }), [
    "step length",
    "run length",
  ]);
});

Deno.test("an answer that breaks off leaves nothing open and nothing to execute", async () => {
  const error = ["step error", "error upstream_cut", "run error"];
  const text = "Let me see";
  assert.deepEqual(await endings({ text, endAfter: 3, end: "cut" }, CUT), error);
  assert.deepEqual(await endings({ toolCalls: [call("{}")], endAfter: 2, end: "cut" }, CUT), [
    "bad call: interrupted",
    ...error,
  ]);
  assert.deepEqual(await endings({ text, errorFrameAfter: 2 }), [
    "step error",
    "error upstream_error",
    "run error",
  ]);
  const events = await emitted(Promise.reject(CUT));
  assert.deepEqual(events.map(({ type }) => type), [
    "start",
    "step-start",
    "step-finish",
    "error",
    "finish",
  ]);
});
