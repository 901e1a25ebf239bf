import assert from "node:assert/strict";
import { SILENT_LOG } from "../../src/core/log.ts";
import { AnswerKeeper } from "../../src/run/answer_keeper.ts";
import { MAX_KEPT_BYTES } from "../../src/run/shared_answer.ts";
import { createFakeClock, settle } from "../support/fake_clock.ts";
import { createFakeDatabase } from "../support/fake_database.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const HEAD = { status: 200, response: { contentType: "text/plain", headers: {} } };
const claim = { tenantId: crypto.randomUUID(), key: "k", claimId: crypto.randomUUID() };
const leaseMs = 15_000;

/** A keeper over a database that says what was written: state, status, piece and its text. */
function rig() {
  const clock = createFakeClock();
  const written: string[] = [];
  const warnings: string[] = [];
  const postgres = { away: false, ours: true };
  const db = createFakeDatabase(({ text, values }) => {
    if (postgres.away) return Promise.reject(new Error("away"));
    if (text.includes("delete from hub.idempotency_pieces")) written.push("refused");
    else if (text.includes("delete from hub.idempotency")) written.push("released");
    else {
      const [state, , status] = values;
      const piece = values.find((value) => value instanceof Uint8Array);
      const said = piece === undefined ? "" : new TextDecoder().decode(piece);
      written.push(`${state} ${status ?? "-"} ${said}`);
    }
    return Promise.resolve(postgres.ours ? [{ followed: false }] : []);
  });
  const log = { ...SILENT_LOG, warn: (message: string) => void warnings.push(message) };
  const keeper = new AnswerKeeper({ db, claim, leaseMs, clock, log });
  let isDone = false;
  void keeper.done.then(() => isDone = true);
  return { clock, written, warnings, postgres, keeper, isDone: () => isDone };
}

Deno.test("what comes is written five times a second, silence renews the claim, the end is written at once", async () => {
  const { keeper, clock, written, isDone } = rig();
  await clock.advance(5000);
  assert.deepEqual(written.splice(0), ["running - "]);
  keeper.begin(HEAD);
  keeper.push(bytes("a"));
  await clock.advance(100);
  keeper.push(bytes("b"));
  await clock.advance(99);
  assert.deepEqual(written, []);
  await clock.advance(1);
  assert.deepEqual(written.splice(0), ["running 200 ab"]);
  await clock.advance(9999);
  assert.deepEqual(written.splice(0), ["running - "]);
  keeper.push(bytes("c"));
  keeper.finish();
  await clock.advance(0);
  assert.deepEqual(written, ["done - c"]);
  assert.equal(isDone(), true);
  assert.equal(clock.pending(), 0);
});

Deno.test("what was not written is written again as it was, an end for a minute at most", async () => {
  const { keeper, clock, written, postgres, warnings, isDone } = rig();
  keeper.begin(HEAD);
  keeper.push(bytes("a"));
  postgres.away = true;
  await clock.advance(200);
  keeper.push(bytes("b"));
  keeper.finish();
  await clock.advance(2000);
  postgres.away = false;
  await clock.advance(1000);
  assert.deepEqual(written, ["running 200 a", "done - b"]);
  assert.equal(isDone(), true);

  const lost = rig();
  lost.postgres.away = true;
  lost.keeper.begin(HEAD);
  lost.keeper.finish();
  await lost.clock.advance(59_000);
  assert.equal(lost.isDone(), false);
  await lost.clock.advance(2000);
  assert.equal(lost.isDone(), true);
  assert.deepEqual([warnings.length, lost.warnings.length, lost.clock.pending()], [0, 1, 0]);

  // A hub that ends tries once more.
  const ending = rig();
  ending.postgres.away = true;
  ending.keeper.begin(HEAD);
  ending.keeper.finish();
  await ending.clock.advance(10);
  ending.keeper.hurry();
  await ending.clock.advance(0);
  assert.equal(ending.isDone(), true);
});

Deno.test("a claim that is another's is written no more", async () => {
  const { keeper, clock, written, postgres, warnings, isDone } = rig();
  postgres.ours = false;
  keeper.push(bytes("a"));
  await clock.advance(200);
  assert.deepEqual([written.splice(0).length, warnings.length, isDone()], [1, 1, true]);
  keeper.push(bytes("b"));
  keeper.finish();
  assert.equal(await keeper.release({ unlessFollowed: false }), false);
  await clock.advance(60_000);
  assert.deepEqual(written, []);
});

Deno.test("an answer past the bound is dropped, and its key can still be released", async () => {
  for (const ending of ["finish", "release"] as const) {
    const { keeper, clock, written, isDone } = rig();
    keeper.begin(HEAD);
    keeper.push(bytes("a"));
    await clock.advance(200);
    keeper.push(new Uint8Array(MAX_KEPT_BYTES));
    keeper.push(bytes("b"));
    await clock.advance(60_000);
    assert.deepEqual(written.splice(0), ["running 200 a", "refused"]);
    if (ending === "finish") keeper.finish();
    else await keeper.release({ unlessFollowed: true });
    await settle();
    assert.deepEqual(written, ending === "finish" ? [] : ["released"]);
    assert.deepEqual([isDone(), clock.pending()], [true, 0]);
  }
});
