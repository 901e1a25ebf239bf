import assert from "node:assert/strict";
import fc from "fast-check";
import { HubError } from "../../src/core/error.ts";
import type { HubEvent } from "../../src/core/event.ts";
import { createFold } from "../../src/core/fold.ts";
import { createIdSource } from "../../src/core/id.ts";
import { createSseParser } from "../../src/core/sse.ts";
import type { ByteSource } from "../../src/http/byte_source.ts";
import { chatUiSource } from "../../src/http/routes/chat_ui_source.ts";
import type { ShownAnswer } from "../../src/http/routes/completion_reply.ts";
import { chatFrames, type ChatStreamOptions } from "../support/chat_replies.ts";
import { settle } from "../support/fake_clock.ts";
import { property } from "../support/property.ts";

const encoder = new TextEncoder();

/** An answer of these reads; an error among them breaks it there. `cancels` holds codes of cancels. */
function answerOf(reads: (string | Uint8Array | HubError)[]) {
  const left = [...reads];
  const cancels: string[] = [];
  const answer = {
    from: { provider: "p", model: "upstream", override: {} },
    read() {
      const next = left.shift();
      if (next instanceof HubError) return Promise.reject(next);
      return Promise.resolve(typeof next === "string" ? encoder.encode(next) : next ?? null);
    },
    cancel: (reason: HubError) => void cancels.push(reason.code),
  } as unknown as ShownAnswer;
  return { answer, cancels, left };
}

function sourceOf(opened: Promise<ShownAnswer>): ByteSource {
  let random = 0;
  const ids = createIdSource(() => 1_800_000_000_000, (length) => {
    return new Uint8Array(length).fill(random++);
  });
  return chatUiSource(opened, { ids, model: "public" });
}

/** Reads a source to its end. */
async function readAll(source: ByteSource) {
  const events: HubEvent[] = [];
  const ids: string[] = [];
  let done = false;
  const parser = createSseParser({
    onEvent({ data, id }) {
      assert.equal(done, false, "nothing follows [DONE]");
      if (data === "[DONE]") done = true;
      else {
        events.push(JSON.parse(data));
        ids.push(id);
      }
    },
  });
  for (let bytes = await source.pull(); bytes !== null; bytes = await source.pull()) {
    assert.ok(bytes.length > 0);
    parser.push(bytes);
  }
  assert.equal(parser.end(), false);
  return { events, ids, done };
}

const readAnswer = (options: ChatStreamOptions) =>
  readAll(sourceOf(Promise.resolve(answerOf(chatFrames(options)).answer)));

const last = (events: HubEvent[]) => events.at(-1);

Deno.test("a chat stream becomes a message of one step, whose numbers begin at one", async () => {
  const { events, ids, done } = await readAnswer({
    reasoning: "hm",
    text: "Hello there",
    usage: { promptTokens: 3, completionTokens: 2 },
  });
  assert.deepEqual(events.map((event) => event.type), [
    "start",
    "step-start",
    "reasoning-start",
    "reasoning-delta",
    "reasoning-end",
    "text-start",
    "text-delta",
    "text-delta",
    "text-end",
    "step-finish",
    "finish",
  ]);
  assert.deepEqual(ids, events.map((_, index) => `${index + 1}`));
  assert.equal(done, true);
  const [start] = events;
  assert.ok(start?.type === "start");
  assert.equal(start.model, "public");
  assert.match(start.messageId, /^msg_\S+$/);
  // Nothing of it is stored: an id of a run or a session would lead nowhere.
  assert.deepEqual(Object.keys(start).toSorted(), ["messageId", "model", "type"]);
  assert.doesNotMatch(JSON.stringify(events), /\b(?:run|ses)_/);
  const finish = last(events);
  assert.ok(finish?.type === "finish");
  assert.equal(finish.finishReason, "stop");
  assert.equal(finish.usage.promptTokens, 3);
  assert.deepEqual(finish.metadata, { model: "upstream", provider: "p" });
});

Deno.test("calls are given to the client with their input, and nobody answers them", async () => {
  const { events } = await readAnswer({
    toolCalls: [
      { name: "f", arguments: { a: 1 } },
      { name: "g", arguments: "{broken" },
    ],
  });
  const fold = createFold();
  for (const event of events) fold.apply(event);
  const tools = fold.message().parts.filter((part) => part.type === "tool");
  assert.deepEqual(tools.map((part) => part.toolName), ["f", "g"]);
  const inputs = events.filter((event) => event.type.startsWith("tool-input-"));
  assert.deepEqual(
    inputs.flatMap((event) =>
      event.type === "tool-input-available" || event.type === "tool-input-error"
        ? [event.input]
        : []
    ),
    [{ a: 1 }, "{broken"],
  );
  const finish = last(events);
  assert.ok(finish?.type === "finish");
  assert.equal(finish.finishReason, "waiting");
});

Deno.test("an unknown finish reason is a stop", async () => {
  const { events } = await readAnswer({ text: "x", finishReason: "brand_new" });
  const finish = last(events);
  assert.ok(finish?.type === "finish" && finish.finishReason === "stop");
});

Deno.test("an answer that never opened ends the message with its error", async () => {
  const failure = new HubError("upstream_unreachable", "No provider could be reached");
  const { events, done } = await readAll(sourceOf(Promise.reject(failure)));
  assert.deepEqual(events.slice(2).map((event) => event.type), ["step-finish", "error", "finish"]);
  const error = events.at(-2);
  assert.deepEqual(error, {
    type: "error",
    errorText: "No provider could be reached",
    code: "upstream_unreachable",
    retryable: true,
  });
  assert.equal(done, true);
});

Deno.test("an answer that breaks off closes what is open, then tells the error", async () => {
  const [role = "", first = ""] = chatFrames({ text: "Hello there" });
  const cut = new HubError("upstream_cut", "The connection ended");
  const { answer } = answerOf([role, first, cut]);
  const { events } = await readAll(sourceOf(Promise.resolve(answer)));
  assert.deepEqual(events.slice(2).map((event) => event.type), [
    "text-start",
    "text-delta",
    "text-end",
    "step-finish",
    "error",
    "finish",
  ]);
  const finish = last(events);
  assert.ok(finish?.type === "finish" && finish.finishReason === "error");
});

Deno.test("an answer without a finish reason is a cut one", async () => {
  const { events } = await readAnswer({ text: "Hello there", endAfter: 2 });
  const error = events.at(-2);
  assert.ok(error?.type === "error" && error.code === "upstream_cut");
});

Deno.test("an error inside the stream ends it, and the rest of the answer is given up", async () => {
  const frames = chatFrames({ text: "Hello there", errorFrameAfter: 2 });
  const { answer, cancels, left } = answerOf([...frames, "data: never read\n\n"]);
  const { events } = await readAll(sourceOf(Promise.resolve(answer)));
  const error = events.at(-2);
  assert.ok(error?.type === "error" && error.code === "upstream_error");
  assert.deepEqual(cancels, ["upstream_error"]);
  assert.equal(left.length, 1);
});

Deno.test("who leaves stops the answer, once, also when it opens only later", async () => {
  const { answer, cancels } = answerOf(chatFrames({ text: "x" }));
  const source = sourceOf(Promise.resolve(answer));
  await source.pull();
  source.cancel("left");
  source.cancel("left");
  await settle();
  assert.deepEqual(cancels, ["client_closed"]);

  const later = answerOf([]);
  const opening = Promise.withResolvers<ShownAnswer>();
  sourceOf(opening.promise).cancel("left");
  opening.resolve(later.answer);
  await settle();
  assert.deepEqual(later.cancels, ["client_closed"]);

  const failing = Promise.withResolvers<ShownAnswer>();
  sourceOf(failing.promise).cancel("left");
  failing.reject(new HubError("upstream_error", "It failed"));
  await settle();
});

property(
  "however the bytes are cut, the message is the same",
  fc.record({
    text: fc.string({ unit: "grapheme", maxLength: 30 }),
    input: fc.option(fc.dictionary(fc.string(), fc.string({ unit: "grapheme" })), {
      nil: undefined,
    }),
    sizes: fc.array(fc.integer({ min: 1, max: 80 }), { minLength: 1 }),
  }),
  async ({ text, input, sizes }) => {
    const toolCalls = input === undefined ? [] : [{ name: "f", arguments: input }];
    const bytes = encoder.encode(chatFrames({ text, toolCalls }).join(""));
    const pieces: Uint8Array[] = [];
    for (let at = 0; at < bytes.length;) {
      const size = sizes[pieces.length % sizes.length] ?? 1;
      pieces.push(bytes.subarray(at, at + size));
      at += size;
    }
    const partsOf = async (reads: Uint8Array[]) => {
      const { events } = await readAll(sourceOf(Promise.resolve(answerOf(reads).answer)));
      const fold = createFold();
      for (const event of events) fold.apply(event);
      return fold.message().parts;
    };
    const parts = await partsOf(pieces);
    assert.deepEqual(parts, await partsOf([bytes]));
    const said = parts.map((part) => part.type === "text" ? part.text : "").join("");
    assert.equal(said, text);
  },
  { runs: 60 },
);
