import assert from "node:assert/strict";
import type { Database } from "../../src/store/database.ts";
import {
  type AnswerClaim,
  claimAnswer,
  lookAtAnswer,
  pruneAnswers,
  refuseAnswer,
  releaseAnswer,
  saveAnswer,
} from "../../src/store/idempotency.ts";
import { DEFAULT_TENANT_ID as tenantId } from "../../src/store/tenant.ts";
import { withDatabase } from "../support/postgres.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const textOf = (pieces: Uint8Array[]) => pieces.map((piece) => new TextDecoder().decode(piece));
const HASH = bytes("hash of the body");
const leaseMs = 60_000;
const HEAD = { status: 200, response: { contentType: "text/plain", headers: { b: "2", a: "1" } } };

const claimOf = (key: string): AnswerClaim => ({ tenantId, key, claimId: crypto.randomUUID() });

async function claimed(db: Database, key: string): Promise<AnswerClaim> {
  const claim = claimOf(key);
  assert.deepEqual(await claimAnswer(db, { ...claim, bodyHash: HASH, leaseMs }), {
    kind: "claimed",
  });
  return claim;
}

const later = (db: Database, claim: AnswerClaim, column: "lease_until" | "expires_at") =>
  db.control.unsafe(
    `update hub.idempotency set ${column} = now() - interval '1 second' where idem_key = $1`,
    [claim.key],
  );

const look = (db: Database, claim: AnswerClaim, from = 0) => lookAtAnswer(db, { ...claim, from });

Deno.test("of all who claim a key at once one gets it", async () => {
  await withDatabase(async (db) => {
    for (let round = 0; round < 20; round++) {
      const claims = Array.from({ length: 8 }, () => claimOf(`k${round}`));
      const outcomes = await Promise.all(
        claims.map((claim) => claimAnswer(db, { ...claim, bodyHash: HASH, leaseMs })),
      );
      const winner = outcomes.findIndex(({ kind }) => kind === "claimed");
      const holder = claims[winner]?.claimId;
      assert.deepEqual(
        outcomes.map((outcome) => outcome.kind === "held" ? outcome.claimId : outcome.kind),
        outcomes.map((_, at) => at === winner ? "claimed" : holder),
      );
    }
  });
});

Deno.test("a key is another's again when its lease or its day is over, for another body only after its day", async () => {
  await withDatabase(async (db) => {
    const first = await claimed(db, "k");
    const other = { ...claimOf("k"), bodyHash: bytes("another"), leaseMs };
    assert.deepEqual(await claimAnswer(db, other), { kind: "mismatch" });
    await saveAnswer(db, first, {
      state: "running",
      head: HEAD,
      piece: { index: 0, bytes: bytes("lost") },
      leaseMs,
    });
    await later(db, first, "lease_until");
    assert.equal((await look(db, first))?.lapsed, true);
    assert.deepEqual(await claimAnswer(db, other), { kind: "mismatch" });

    const second = await claimed(db, "k");
    assert.equal(await look(db, first), null);
    const part = { state: "done" as const, head: HEAD, piece: null, leaseMs };
    assert.equal(await saveAnswer(db, first, part), null);
    assert.equal(await releaseAnswer(db, { ...first, unlessFollowed: false }), false);
    assert.deepEqual(await look(db, second), {
      state: "running",
      lapsed: false,
      head: null,
      pieces: [],
      complete: true,
    });

    await saveAnswer(db, second, part);
    await later(db, second, "lease_until");
    assert.equal((await look(db, second))?.lapsed, false);
    const again = { ...claimOf("k"), bodyHash: HASH, leaseMs };
    assert.deepEqual(await claimAnswer(db, again), { kind: "held", claimId: second.claimId });
    await later(db, second, "expires_at");
    assert.deepEqual(await claimAnswer(db, other), { kind: "claimed" });
    assert.equal((await db.read`select 1 from hub.idempotency_pieces`).length, 0);
  });
});

Deno.test("pieces come back in order and byte for byte, each once, from any of them on", async () => {
  await withDatabase(async (db) => {
    const claim = await claimed(db, "k");
    const all = Uint8Array.from({ length: 256 }, (_, at) => at);
    const save = (index: number, piece: Uint8Array, state: "running" | "done" = "running") =>
      saveAnswer(db, claim, {
        state,
        head: index === 0 ? HEAD : null,
        piece: { index, bytes: piece },
        leaseMs,
      });
    assert.deepEqual(await save(0, all), { followed: false });
    await save(1, bytes("one"));
    // A statement whose outcome was lost is sent again.
    await save(1, bytes("one"));
    const seen = await look(db, claim);
    assert.deepEqual(seen?.pieces, [all, bytes("one")]);
    assert.deepEqual(seen.head, HEAD);
    assert.deepEqual(await save(2, bytes("two"), "done"), { followed: true });
    assert.deepEqual(await save(2, bytes("two"), "done"), { followed: true });
    assert.equal(await save(3, bytes("late")), null);
    const rest = await look(db, claim, 1);
    assert.deepEqual([rest?.state, textOf(rest?.pieces ?? [])], ["done", ["one", "two"]]);

    const long = await claimed(db, "long");
    for (let index = 0; index < 250; index++) {
      await saveAnswer(db, long, {
        state: "running",
        head: HEAD,
        piece: { index, bytes: bytes(`${index}`) },
        leaseMs,
      });
    }
    const page = await look(db, long);
    assert.deepEqual([page?.pieces.length, page?.complete], [200, false]);
    const last = await look(db, long, 200);
    assert.deepEqual([textOf(last?.pieces ?? []).at(-1), last?.complete], ["249", true]);
  });
});

Deno.test("a key is given up at once, unless somebody waits for it elsewhere", async () => {
  await withDatabase(async (db) => {
    const claim = await claimed(db, "k");
    await look(db, claim);
    assert.equal(await releaseAnswer(db, { ...claim, unlessFollowed: true }), true);
    await db.control`update hub.idempotency set followed_until = now() - interval '1 second'`;
    assert.equal(await releaseAnswer(db, { ...claim, unlessFollowed: true }), false);
    assert.equal(await releaseAnswer(db, { ...claim, unlessFollowed: true }), false);
    assert.equal(await look(db, claim), null);
    const next = await claimed(db, "k");
    await look(db, next);
    assert.equal(await releaseAnswer(db, { ...next, unlessFollowed: false }), false);
    assert.equal(await look(db, next), null);
  });
});

Deno.test("of an answer that is too large only its key is kept", async () => {
  await withDatabase(async (db) => {
    const claim = await claimed(db, "k");
    const piece = { index: 0, bytes: bytes("much") };
    await saveAnswer(db, claim, { state: "running", head: HEAD, piece, leaseMs });
    await refuseAnswer(db, claim);
    const seen = await look(db, claim);
    assert.deepEqual([seen?.state, seen?.pieces], ["too_large", []]);
    await later(db, claim, "lease_until");
    const again = { ...claimOf("k"), bodyHash: HASH, leaseMs };
    assert.deepEqual(await claimAnswer(db, again), { kind: "held", claimId: claim.claimId });
  });
});

Deno.test("expired keys are dropped in batches with their answers, found by an index", async () => {
  await withDatabase(async (db) => {
    for (let at = 0; at < 7; at++) {
      const claim = await claimed(db, `k${at}`);
      const piece = { index: 0, bytes: bytes("x") };
      await saveAnswer(db, claim, { state: "done", head: HEAD, piece, leaseMs });
      if (at < 5) await later(db, claim, "expires_at");
    }
    let statements = 0;
    const counting = {
      ...db,
      within<T>(query: PromiseLike<T>) {
        statements++;
        return db.within(query);
      },
    };
    assert.deepEqual([await pruneAnswers(counting, { batch: 2 }), statements], [5, 3]);
    assert.equal(await pruneAnswers(db), 0);
    assert.equal((await db.read`select 1 from hub.idempotency_pieces`).length, 2);
    const plan = await db.control.begin(async (tx) => {
      await tx`set local enable_seqscan = off`;
      return await tx`explain select 1 from hub.idempotency
        where expires_at <= now() order by expires_at limit 10`;
    });
    assert.match(JSON.stringify(plan), /idempotency_expiry/);
  });
});
