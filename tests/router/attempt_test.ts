import assert from "node:assert/strict";
import { Deadlines } from "../../src/core/deadlines.ts";
import { HubError } from "../../src/core/error.ts";
import { Attempt } from "../../src/router/attempt.ts";
import type { AttemptOptions } from "../../src/router/attempt_options.ts";
import { CHAT } from "../../src/wire/openai_chat/chat_wire.ts";
import { createFakeClock, settle } from "../support/fake_clock.ts";
import { createFakeAnswer, createFakeTarget, type FakeAnswer } from "../support/fake_target.ts";
import { chatFrames } from "../support/scripted_upstream.ts";

const decoder = new TextDecoder();
const SECRET = "sk-own-secret-of-the-hub";
const SSE = { "content-type": "text/event-stream" };

/** An attempt that this answer answers. */
function attemptOn(answer: FakeAnswer, more: Partial<AttemptOptions> = {}) {
  const clock = createFakeClock();
  const deadlines = new Deadlines(clock);
  const attempt = new Attempt({
    target: createFakeTarget("p/m", () => answer.response),
    wire: CHAT,
    body: new Uint8Array(2),
    stream: true,
    choices: 1,
    hideUsage: false,
    signal: new AbortController().signal,
    redact: (text) => text.replaceAll(SECRET, "[redacted]"),
    clock,
    deadlines,
    ...more,
  });
  return { attempt, clock, deadlines };
}

/** Everything that is shown, and the code of the error that ends it. */
async function readAll(attempt: Attempt): Promise<{ shown: string; code: string | null }> {
  let shown = "";
  try {
    for (let bytes = await attempt.read(); bytes !== null; bytes = await attempt.read()) {
      shown += decoder.decode(bytes);
    }
    return { shown, code: null };
  } catch (error) {
    return { shown, code: (error as { code: string }).code };
  }
}

const ERROR = 'data: {"error":{"message":"no"}}\n\n';
const DONE = "data: [DONE]\n\n";

Deno.test("an error after content: what came before it is shown, nothing of it or behind it", async () => {
  const [role = "", one = "", two = ""] = chatFrames({ text: "one two" });
  const cases: [pieces: string[], shown: string][] = [
    [[role, one, two + ERROR + DONE], role + one + two],
    [[role, one, ERROR, DONE], role + one],
    [[role + one + ERROR + two + DONE], role + one],
  ];
  for (const [pieces, shown] of cases) {
    const answer = createFakeAnswer({ headers: SSE });
    for (const piece of pieces) answer.push(piece);
    const { attempt, deadlines } = attemptOn(answer);
    await attempt.open();
    assert.deepEqual(await readAll(attempt), { shown, code: "upstream_error" });
    assert.equal(answer.cancelled, true);
    assert.equal(deadlines.size, 0);
  }
});

Deno.test("the upstream is stopped with the read that had the error, not with the next", async () => {
  const [role = "", one = "", two = ""] = chatFrames({ text: "one two" });
  const answer = createFakeAnswer({ headers: SSE });
  answer.push(role + one);
  answer.push(two + ERROR);
  const { attempt } = attemptOn(answer);
  await attempt.open();
  await attempt.read();
  assert.equal(answer.cancelled, false);
  assert.equal(decoder.decode(await attempt.read() ?? undefined), two);
  assert.equal(answer.cancelled, true);
  await assert.rejects(attempt.read(), { code: "upstream_error" });
});

Deno.test("comments without end are not held without end; a large first frame passes", async () => {
  const comments = new TextEncoder().encode(": x\n\n".repeat(4096));
  const answer = createFakeAnswer({ headers: SSE, endless: comments });
  const { attempt, deadlines } = attemptOn(answer);
  await assert.rejects(attempt.open(), { code: "upstream_malformed" });
  assert.equal(answer.cancelled, true);
  assert.equal(answer.reads, Math.floor(1024 * 1024 / comments.length) + 1);
  assert.equal(deadlines.size, 0);

  const large = chatFrames({ deltas: ["x".repeat(3 * 1024 * 1024)] }).join("");
  const pieces = Array.from(
    { length: 4 },
    (_, at) => large.slice(at * 2 ** 20, (at + 1) * 2 ** 20),
  );
  const { attempt: whole } = attemptOn(createFakeAnswer({ headers: SSE, pieces }));
  await whole.open();
  assert.deepEqual(await readAll(whole), { shown: large, code: null });
});

Deno.test("an answer that is stopped while nobody reads does not look whole", async () => {
  const answer = createFakeAnswer({ headers: SSE });
  const [role = "", one = ""] = chatFrames({ text: "one two" });
  answer.push(role + one);
  const { attempt, clock } = attemptOn(answer);
  await attempt.open();
  await clock.advance(1000);
  assert.equal(answer.cancelled, true);
  assert.deepEqual(await readAll(attempt), { shown: role + one, code: "upstream_timeout" });
});

Deno.test("a whole answer may take longer than its first byte, and than a silence", async () => {
  const answer = createFakeAnswer();
  const { attempt, clock, deadlines } = attemptOn(answer, { stream: false });
  const opened = attempt.open();
  answer.push('{"a":"');
  for (let piece = 0; piece < 8; piece++) {
    await clock.advance(900);
    answer.push("x");
  }
  answer.push('"}');
  answer.end();
  await opened;
  assert.deepEqual(await readAll(attempt), { shown: '{"a":"xxxxxxxx"}', code: null });
  assert.equal(deadlines.size, 0);
});

Deno.test("a whole answer that falls silent, or never begins, is a timeout", async () => {
  const silent = createFakeAnswer();
  const { attempt, clock } = attemptOn(silent, { stream: false });
  const opened = assert.rejects(attempt.open(), /silent for 1000 ms/);
  silent.push("{");
  await clock.advance(900);
  silent.push("x");
  await clock.advance(999);
  assert.equal(silent.cancelled, false);
  await clock.advance(1);
  await opened;
  const never = attemptOn(silent, {
    stream: false,
    target: createFakeTarget(
      "p/m",
      ({ signal }) =>
        new Promise((_, reject) =>
          signal.addEventListener("abort", () => reject(new HubError("aborted", "stopped")))
        ),
    ),
  });
  const failed = assert.rejects(never.attempt.open(), /no content within 1000 ms/);
  await never.clock.advance(1000);
  await failed;
  assert.equal(never.attempt.reached, true);
});

Deno.test("a provider that repeats the hub's key does not give it away", async () => {
  const words = `Wrong key: Bearer ${SECRET}`;
  const error = { message: words, code: words, param: words };
  const json = JSON.stringify({ error });
  const long = JSON.stringify({ error: `${" ".repeat(490)}${SECRET.repeat(200)}` });
  const [role = "", one = ""] = chatFrames({ text: "one" });
  const frame = `data: ${json}\n\n`;
  const cases: [stream: boolean, answer: FakeAnswer][] = [
    ...[400, 401, 429, 500].map((status): [boolean, FakeAnswer] => [
      false,
      createFakeAnswer({ status, pieces: [json] }),
    ]),
    [false, createFakeAnswer({ status: 400, pieces: [long] })],
    [false, createFakeAnswer({ pieces: [json] })],
    [false, createFakeAnswer({ pieces: [long] })],
    [true, createFakeAnswer({ headers: { "content-type": "application/json" }, pieces: [json] })],
    [true, createFakeAnswer({ headers: SSE, pieces: [role + frame] })],
    [true, createFakeAnswer({ headers: SSE, pieces: [role + one, frame] })],
  ];
  for (const [stream, answer] of cases) {
    const { attempt } = attemptOn(answer, { stream });
    const failure = await attempt.open().then(() => readAll(attempt)).then(
      () => attempt.failure,
      () => attempt.failure,
    );
    assert.ok(failure !== null);
    const { message, details, param, clientCode } = failure;
    const told = JSON.stringify({ message, details, param, clientCode });
    assert.ok(!told.includes("sk-own"), told);
    assert.ok(message.length < 600);
    if (failure.code === "upstream_rejected") assert.match(message, /Bearer \[redacted\]|refused/);
  }
});

for (const stream of [true, false]) {
  Deno.test(`an attempt that is stopped just when its answer comes leaves no deadline (stream: ${stream})`, async () => {
    const head = Promise.withResolvers<void>();
    for (const phase of ["head", "body"]) {
      const answer = createFakeAnswer({ headers: stream ? SSE : {} });
      const target = createFakeTarget("p/m", async () => {
        if (phase === "head") await head.promise;
        return answer.response;
      });
      const { attempt, deadlines } = attemptOn(answer, { stream, target });
      const opened = attempt.open().catch(() => {});
      await settle();
      if (phase === "head") head.resolve();
      else if (stream) answer.push(chatFrames({ text: "one two" }).slice(0, 2).join(""));
      else {
        answer.push("{}");
        answer.end();
      }
      attempt.cancel(new HubError("client_closed", "The client left"));
      await opened;
      await assert.rejects(readToEnd(attempt), { code: "client_closed" });
      assert.equal(answer.cancelled, true);
      assert.equal(deadlines.size, 0);
    }
  });
}

async function readToEnd(attempt: Attempt): Promise<void> {
  while (await attempt.read() !== null);
}
