import assert from "node:assert/strict";
import { SILENT_LOG } from "../../src/core/log.ts";
import {
  type CacheEvent,
  type CacheQuestion,
  type CacheSettings,
  ResponseCache,
} from "../../src/run/response_cache.ts";
import { readCacheOverview } from "../../src/store/cached_answers.ts";
import type { Database } from "../../src/store/database.ts";
import { DEFAULT_TENANT_ID as tenantId } from "../../src/store/tenant.ts";
import { createFakeClock, type FakeClock, settle } from "../support/fake_clock.ts";
import { createFakeDatabase, type Statement } from "../support/fake_database.ts";
import { testIds, withDatabase } from "../support/postgres.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const keyId = testIds.next("key");
const head = { target: "p/m", provider: "p", model: "m", headers: {} };
const questionOf = (name: string, seconds = 60): CacheQuestion => ({
  tenantId,
  keyId,
  seconds,
  hash: bytes(name.padEnd(32, ".")),
});

function rig(db: Database, settings: Partial<CacheSettings> = {}) {
  const clock: FakeClock = createFakeClock();
  const events: CacheEvent[] = [];
  const cache = new ResponseCache({
    maxSeconds: 3600,
    maxEntryBytes: 1024 * 1024,
    maxTotalBytes: 1024 * 1024,
    lookupTimeoutMs: 100,
    joinTimeoutMs: 1000,
    ...settings,
    db,
    clock,
    ids: testIds,
    log: SILENT_LOG,
    policyOf: () => ({}),
    permit() {},
    book: () => assert.fail("nothing is booked here"),
    observe: (event) => events.push(event),
  });
  const keep = async (name: string, seconds = 60, text = `{"${name}":1}`) => {
    const recording = cache.record(questionOf(name, seconds));
    recording.push(bytes(text));
    recording.finish(head, { streamed: false });
    await cache.close();
  };
  const find = (name: string, seconds = 60) => cache.find(questionOf(name, seconds));
  return { cache, clock, events, keep, find };
}

/** As if so much time had gone by. */
const age = (db: Database, seconds: number) =>
  db.control`update hub.cached_answers set
    created_at = created_at - ${seconds}::int * interval '1 second',
    expires_at = expires_at - ${seconds}::int * interval '1 second'`;

Deno.test("an answer is found until its time is over, by the clock of the database alone", async () => {
  await withDatabase(async (db) => {
    const { cache, clock, events, keep, find } = rig(db);
    await keep("a", 60);
    await keep("long", 3600);
    await clock.advance(3_600_000);
    assert.equal((await find("a"))?.age, 0);
    await age(db, 40);
    assert.deepEqual((await find("a"))?.head, head);
    assert.equal((await find("a"))?.age, 40);
    assert.equal(await find("a", 30), null, "too old for who asks");
    await age(db, 20);
    assert.equal(await find("a"), null);
    assert.equal(await find("a", 3600), null, "kept for a minute only");
    assert.equal((await find("long", 3600))?.age, 60);
    assert.deepEqual(events.filter((event) => event === "miss").length, 3);

    // What has expired goes, the rest stays.
    assert.equal((await readCacheOverview(db, tenantId)).entries, 2);
    await cache.prune();
    assert.equal((await readCacheOverview(db, tenantId)).entries, 1);
    assert.equal((await find("long", 3600))?.age, 60);
  });
});

Deno.test("an answer is as old as the time at which it was whole, and the newest stays", async () => {
  await withDatabase(async (db) => {
    const { cache, clock, keep, find } = rig(db);
    const begin = (text: string) => {
      const recording = cache.record(questionOf("a", 600));
      recording.push(bytes(text));
      return recording;
    };
    const text = async () => new TextDecoder().decode((await find("a", 600))?.bytes);
    // Two are whole at one moment; the first is written at once, in that turn, the second behind it, late.
    await keep("a", 600, '"new"');
    await age(db, 30);
    const gate = Promise.withResolvers<void>();
    const slow: Database = {
      ...db,
      control: db.control,
      within: async (query) => {
        await gate.promise;
        return await db.within(query);
      },
    };
    const late = rig(slow);
    for (const name of ["other", "a"]) {
      const recording = late.cache.record(questionOf(name, 600));
      recording.push(bytes('"waited"'));
      recording.finish(head, { streamed: false });
    }
    await late.clock.advance(60_000);
    gate.resolve();
    await late.cache.close();
    assert.equal(await text(), '"new"', "it was whole 60 s ago, the other 30 s");
    assert.equal((await find("a", 600))?.age, 30);
    const recording = begin('"newer"');
    await clock.advance(5000);
    recording.finish(head, { streamed: false });
    await cache.close();
    assert.equal(await text(), '"newer"');
    assert.equal((await find("a", 600))?.age, 0);
  });
});

Deno.test("the oldest go until the rest fits, however they were kept", async () => {
  await withDatabase(async (db) => {
    const { cache, keep, find } = rig(db);
    for (let at = 0; at < 30; at++) {
      await keep(`${at}`, 3600 - at, "x".repeat(1000));
      await age(db, 1);
    }
    const small = rig(db, { maxTotalBytes: 10_000 });
    await small.cache.prune();
    const { entries, bytes } = await readCacheOverview(db, tenantId);
    assert.deepEqual([entries, bytes <= 10_000], [7, true]);
    assert.notEqual(await find("29", 3600), null);
    assert.equal(await find("22", 3600), null);
    await Promise.all([small.cache.prune(), cache.prune()]);
    assert.equal((await readCacheOverview(db, tenantId)).entries, 7);
  });
});

Deno.test("a database that is late or fails is asked by one request a second, and waited for no longer", async () => {
  let answer: (statement: Statement) => Promise<readonly unknown[]> = () => new Promise(() => {});
  let looks = 0;
  const db = createFakeDatabase((statement) => {
    looks++;
    return answer(statement);
  });
  const { clock, events, find } = rig(db);
  const first = find("a");
  await clock.advance(99);
  assert.equal(events.length, 0);
  await clock.advance(1);
  assert.equal(await first, null);
  assert.deepEqual(events, ["unavailable"]);
  assert.equal(await find("a"), null, "at once");
  assert.equal(looks, 1);
  await clock.advance(1000);
  answer = () => Promise.reject(new Error("away"));
  assert.deepEqual(await Promise.all([find("a"), find("b"), find("c")]), [null, null, null]);
  assert.equal(looks, 2);
  await clock.advance(1000);
  answer = () => Promise.resolve([]);
  assert.deepEqual(await Promise.all([find("a"), find("b")]), [null, null]);
  assert.equal(looks, 3);
  assert.equal(await find("b"), null);
  assert.equal(looks, 4);
  assert.deepEqual(events.slice(-1), ["miss"]);
  assert.equal(clock.pending(), 0);
});

Deno.test("looks are bounded: one too many is a miss", async () => {
  const gate = Promise.withResolvers<readonly unknown[]>();
  let looks = 0;
  const db = createFakeDatabase(() => {
    looks++;
    return gate.promise;
  });
  const { events, find } = rig(db);
  const all = Array.from({ length: 300 }, () => find("a"));
  await settle();
  assert.equal(looks, 256);
  assert.equal(events.filter((event) => event === "unavailable").length, 44);
  gate.resolve([]);
  await Promise.all(all);
  await find("a");
  assert.equal(looks, 257);
});

Deno.test("what cannot be written is dropped, and what comes is bounded by all that is held", async () => {
  const gate = Promise.withResolvers<readonly unknown[]>();
  let answer: () => Promise<readonly unknown[]> = () => gate.promise;
  const { cache, events, keep } = rig(createFakeDatabase(() => answer()), {
    maxEntryBytes: 16 * 1024 * 1024,
  });
  const big = new Uint8Array(16 * 1024 * 1024);
  const recordings = Array.from({ length: 5 }, (_, at) => cache.record(questionOf(`${at}`)));
  for (const recording of recordings) recording.push(big);
  assert.deepEqual(events, ["dropped"]);
  const [first, second, third, fourth, fifth] = recordings;
  first?.finish(head, { streamed: false });
  second?.finish(head, { streamed: false });
  third?.drop();
  third?.drop();
  fourth?.drop();
  fifth?.finish(head, { streamed: false });
  await settle();
  gate.reject(new Error("away"));
  await cache.close();
  assert.deepEqual(events, ["dropped", "dropped", "dropped"]);
  // All of it is given back.
  answer = () => Promise.resolve([]);
  for (let at = 0; at < 8; at++) {
    const recording = cache.record(questionOf(`${at}`));
    recording.push(big);
    recording.finish(head, { streamed: false });
    await cache.close();
  }
  await keep("last");
  assert.equal(events.filter((event) => event === "stored").length, 9);
});

Deno.test("a request's wish is cut to what there may be, and a key's word stands behind it", () => {
  const db = createFakeDatabase(() => assert.fail("nothing is asked"));
  const secondsFor = (cacheSeconds: number | undefined, asked: number | null) =>
    new ResponseCache({
      maxSeconds: 3600,
      maxEntryBytes: 1,
      maxTotalBytes: 1,
      lookupTimeoutMs: 1,
      joinTimeoutMs: 1000,
      db,
      clock: createFakeClock(),
      ids: testIds,
      log: SILENT_LOG,
      policyOf: () => cacheSeconds === undefined ? {} : { cacheSeconds },
      permit() {},
      book() {},
      observe() {},
    }).secondsFor("key_1", asked);
  const cases: [own: number | undefined, asked: number | null, wanted: number][] = [
    [undefined, null, 0],
    [undefined, 60, 60],
    [undefined, 7200, 3600],
    [undefined, 0, 0],
    [60, null, 60],
    [7200, null, 3600],
    [60, 600, 600],
    [60, 0, 0],
    [0, 60, 0],
    [0, null, 0],
  ];
  for (const [own, asked, wanted] of cases) assert.equal(secondsFor(own, asked), wanted);
});
