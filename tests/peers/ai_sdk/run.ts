/**
 * Feeds rendered runs to the real `useChat` machinery of several AI SDK versions: the transport, its parser and schema,
 * and the chat that builds the message. Fails when a chunk is refused or a final message is not the fold's.
 * Usage: deno run --config tests/peers/ai_sdk/deno.json --allow-env --allow-read --allow-sys=hostname tests/peers/ai_sdk/run.ts [runs] [seed]
 */
import assert from "node:assert/strict";
import fc from "fast-check";
import type { HubEvent, SequencedEvent } from "../../../src/core/event.ts";
import { createFold } from "../../../src/core/fold.ts";
import type { AiSdkLevel } from "../../../src/wire/ai_sdk_chunk.ts";
import { toAiSdkMessage } from "../../../src/wire/ai_sdk_message.ts";
import { parseAiSdkChat } from "../../../src/wire/ai_sdk_request.ts";
import { AI_SDK_HEADERS, createAiSdkRenderer } from "../../../src/wire/ai_sdk_stream.ts";
import { DONE_FRAME, OPEN_FRAME, PING_FRAME } from "../../../src/wire/ui_stream.ts";
import { validLog } from "../../support/logs.ts";
import { type AiPackage, createChat, loadAiPackage } from "./ai_package.ts";
import { expectedParts, isComparable, shownParts } from "./expected_message.ts";

/** Versions and the levels their applications may ask for: the oldest supported, the last strict and the newest of each major. */
const PEERS: [version: string, levels: AiSdkLevel[]][] = [
  ["5.0.92", [5]],
  ["5.0.217", [5]],
  ["5.0.277", [5]],
  ["6.0.231", [5, 6]],
  ["6.0.326", [5, 6]],
  ["7.0.32", [5, 6]],
  ["7.0.71", [5, 6, 7]],
  ["7.0.173", [5, 6, 7]],
];

interface Case {
  log: SequencedEvent[];
  /** Sizes of the pieces in which the body arrives. */
  cuts: number[];
}

const someCase: fc.Arbitrary<Case> = fc.record({
  log: validLog,
  cuts: fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 5 }),
});

function renderBody({ log }: Case, level: AiSdkLevel): Uint8Array {
  const renderer = createAiSdkRenderer({ level });
  const frames = [OPEN_FRAME];
  for (const { event } of log) frames.push(renderer.render(event), PING_FRAME);
  frames.push(DONE_FRAME);
  const body = new Uint8Array(frames.reduce((sum, frame) => sum + frame.length, 0));
  let at = 0;
  for (const frame of frames) {
    body.set(frame, at);
    at += frame.length;
  }
  return body;
}

function respond(one: Case, level: AiSdkLevel): Response {
  const bytes = renderBody(one, level);
  let [at, turn] = [0, 0];
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const size = one.cuts[turn++ % one.cuts.length] ?? 1;
      if (at >= bytes.length) return controller.close();
      controller.enqueue(bytes.slice(at, at += size));
    },
  });
  return new Response(body, { headers: AI_SDK_HEADERS });
}

const find = <T extends HubEvent["type"]>(log: readonly SequencedEvent[], type: T) =>
  log.map(({ event }) => event).findLast((event): event is Extract<HubEvent, { type: T }> =>
    event.type === type
  );

/** The application reads to the end, or to the error, and shows what the fold has. */
function checkChat(
  { chat, seen }: ReturnType<typeof createChat>,
  one: Case,
  level: AiSdkLevel,
): void {
  const failure = find(one.log, "error");
  const texts = seen.errors.map((error) => error.message);
  assert.deepEqual(texts, failure === undefined ? [] : [failure.errorText]);
  assert.equal(chat.status, failure === undefined ? "ready" : "error");
  const message = chat.messages.at(-1);
  assert.equal(message?.role, "assistant");
  assert.equal(message.id, "msg_1");
  const finish = find(one.log, "finish");
  assert.deepEqual(message.metadata?.usage, finish?.usage);
  if (failure === undefined) {
    assert.equal(message.metadata?.finishReason, finish?.finishReason);
    assert.equal(message.metadata?.provider, finish?.metadata.provider);
  }
  assert.equal(message.metadata?.runId, "run_1");
  if (isComparable(one.log, level)) {
    assert.deepEqual(shownParts(message.parts), expectedParts(one.log, level));
  }
}

async function checkSubmit(ai: AiPackage, one: Case, level: AiSdkLevel): Promise<void> {
  const posted: unknown[] = [];
  const client = createChat(ai, [], async (request) => {
    posted.push(await request.json());
    return respond(one, level);
  });
  await client.chat.sendMessage({ text: "Hello" });
  checkChat(client, one, level);
  const chat = parseAiSdkChat(posted[0]);
  assert.deepEqual(chat, {
    trigger: "submit",
    chatId: "chat_1",
    clientMessageId: client.chat.messages[0]?.id,
    parts: [{ type: "text", id: "text-0", text: "Hello", state: "done" }],
  });
  await client.chat.regenerate({ messageId: "msg_1" });
  const again = { trigger: "regenerate", chatId: "chat_1", messageId: "msg_1" };
  const last = client.chat.messages[0]?.id;
  assert.deepEqual(parseAiSdkChat(posted[1]), { ...again, last, said: chat });
}

async function checkResume(ai: AiPackage, one: Case, level: AiSdkLevel): Promise<void> {
  const asked = { id: "u1", role: "user" as const, parts: [] };
  const client = createChat(ai, [asked], (request) => {
    assert.equal(request.url, "http://hub.test/api/chat/chat_1/stream");
    return respond(one, level);
  });
  await client.chat.resumeStream();
  checkChat(client, one, level);
  const idle = createChat(ai, [asked], () => new Response(null, { status: 204 }));
  await idle.chat.resumeStream();
  assert.deepEqual([idle.chat.status, idle.chat.messages], ["ready", [asked]]);
}

async function checkHistory(ai: AiPackage, { log }: Case): Promise<void> {
  const fold = createFold();
  for (const { event } of log) fold.apply(event);
  const message = toAiSdkMessage(fold.message());
  if (message.parts.length > 0) await ai.validateUIMessages({ messages: [message] });
}

/** A chunk that no version knows must be refused, or the checks above prove nothing. */
async function checkThatRefusalsShow(ai: AiPackage): Promise<void> {
  const bytes = new TextEncoder().encode('data: {"type":"start"}\n\ndata: {"type":"hub-news"}\n\n');
  const { chat, seen } = createChat(ai, [], () => new Response(bytes, { headers: AI_SDK_HEADERS }));
  await chat.sendMessage({ text: "Hello" });
  assert.equal(seen.errors.length, 1);
  assert.equal(chat.status, "error");
}

function say(line: string): void {
  Deno.stdout.writeSync(new TextEncoder().encode(`${line}\n`));
}

const [numRuns, seed] = [Number(Deno.args[0] ?? 150), Number(Deno.args[1] ?? 20_260_727)];
for (const [version, levels] of PEERS) {
  const ai = await loadAiPackage(version);
  await checkThatRefusalsShow(ai);
  for (const level of levels) {
    const started = performance.now();
    await fc.assert(
      fc.asyncProperty(someCase, async (one) => {
        await checkSubmit(ai, one, level);
        await checkResume(ai, one, level);
        await checkHistory(ai, one);
      }),
      { numRuns, seed },
    );
    const seconds = ((performance.now() - started) / 1000).toFixed(1);
    say(`ai ${version} level ${level}: ${numRuns} runs agree (${seconds} s, seed ${seed})`);
  }
}
