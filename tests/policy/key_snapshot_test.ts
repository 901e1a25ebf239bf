import assert from "node:assert/strict";
import { HubError } from "../../src/core/error.ts";
import { type Log, SILENT_LOG } from "../../src/core/log.ts";
import { KeySnapshots } from "../../src/policy/key_snapshot.ts";
import { createFakeClock, settle } from "../support/fake_clock.ts";
import { createFakeDatabase } from "../support/fake_database.ts";

const REFRESH_MS = 5000;

interface Row {
  tenant_id: string;
  key_id: string;
  name: string;
  role: "user" | "admin";
  lookup_id: string;
  secret_hash: Uint8Array;
  expires_at: Date | null;
  revoked_at: Date | null;
  created_at: Date;
  owner: string | null;
  tags: string[];
  policy: Record<string, unknown>;
  former_lookup_id: string | null;
  former_hash: Uint8Array | null;
  former_until: Date | null;
}

const rowOf = (lookupId: string, facts: Partial<Row> = {}): Row => ({
  tenant_id: "00000000-0000-0000-0000-000000000001",
  key_id: `00000000-0000-0000-0000-0000000000${lookupId}`,
  name: "laptop",
  role: "user",
  lookup_id: lookupId,
  secret_hash: new Uint8Array(32).fill(1),
  expires_at: null,
  revoked_at: null,
  created_at: new Date(0),
  owner: null,
  tags: [],
  policy: {},
  former_lookup_id: null,
  former_hash: null,
  former_until: null,
  ...facts,
});

/** Snapshots of a table of keys that a test changes. */
function setup(...rows: Row[]) {
  const clock = createFakeClock();
  const state = { rows, away: false, reads: 0, gate: Promise.resolve(), warnings: 0 };
  const db = createFakeDatabase(async () => {
    state.reads++;
    const { rows } = state;
    await state.gate;
    if (state.away) throw new HubError("database_unavailable", "Postgres is not reachable");
    return rows;
  });
  const log: Log = { ...SILENT_LOG, warn: () => void state.warnings++ };
  const keys = new KeySnapshots({ db, clock, log, refreshMs: REFRESH_MS });
  return { clock, keys, state };
}

const namesOf = ({ current }: KeySnapshots) => [...current?.byLookupId.keys() ?? []];

Deno.test("there is no snapshot before the first look", () => {
  const { keys, state } = setup(rowOf("aa"));
  assert.equal(keys.current, null);
  assert.equal(state.reads, 0);
});

Deno.test("a snapshot holds every key by its lookup id, without more than the hash of its secret", async () => {
  const expires = new Date(1_900_000_000_000);
  const { keys } = setup(
    rowOf("aa"),
    rowOf("bb", { role: "admin", expires_at: expires, tags: ["night"] }),
  );
  await keys.refresh();
  assert.deepEqual(namesOf(keys), ["aa", "bb"]);
  assert.deepEqual(keys.current?.byLookupId.get("bb"), {
    tenantId: "00000000-0000-0000-0000-000000000001",
    keyId: "key_000000000000000000000000000000bb",
    name: "laptop",
    role: "admin",
    lookupId: "bb",
    hash: new Uint8Array(32).fill(1),
    expiresAt: expires.getTime(),
    revokedAt: null,
    tags: ["night"],
    owner: null,
  });
});

Deno.test("a table without keys is a snapshot too", async () => {
  const { keys } = setup();
  await keys.refresh();
  assert.equal(keys.current?.byLookupId.size, 0);
});

Deno.test("as long as no key changes the snapshot stays, so that verified tokens stay verified", async () => {
  const { keys, state } = setup(rowOf("aa"), rowOf("bb"));
  await keys.refresh();
  const before = keys.current;
  state.rows = [rowOf("bb"), rowOf("aa")];
  await keys.refresh();
  assert.equal(keys.current, before);
});

for (
  const [name, change] of [
    ["is revoked", { revoked_at: new Date(1) }],
    ["gets an end", { expires_at: new Date(1) }],
    ["gets another role", { role: "admin" }],
    ["gets another name", { name: "desktop" }],
    ["gets another secret", { secret_hash: new Uint8Array(32).fill(2) }],
  ] as const
) {
  Deno.test(`when a key ${name} a new snapshot takes the place of the old one`, async () => {
    const { keys, state } = setup(rowOf("aa"), rowOf("bb"));
    await keys.refresh();
    const before = keys.current;
    const old = before?.byLookupId.get("aa");
    state.rows = [rowOf("aa", change), rowOf("bb")];
    await keys.refresh();
    assert.notEqual(keys.current, before);
    assert.notDeepEqual(keys.current?.byLookupId.get("aa"), old);
    assert.equal(before?.byLookupId.get("aa"), old);
  });
}

Deno.test("keys that come and go are seen at the next look", async () => {
  const { clock, keys, state } = setup(rowOf("aa"));
  await keys.refresh();
  keys.start();
  state.rows = [rowOf("aa"), rowOf("bb")];
  await clock.advance(REFRESH_MS - 1);
  assert.deepEqual(namesOf(keys), ["aa"]);
  await clock.advance(1);
  assert.deepEqual(namesOf(keys), ["aa", "bb"]);
  state.rows = [];
  await clock.advance(REFRESH_MS);
  assert.deepEqual(namesOf(keys), []);
  keys.close();
  assert.equal(clock.pending(), 0);
});

Deno.test("while Postgres is away the last snapshot stays, and the looking goes on", async () => {
  const { clock, keys, state } = setup(rowOf("aa"));
  await keys.refresh();
  keys.start();
  state.away = true;
  await assert.rejects(keys.refresh(), { code: "database_unavailable" });
  await clock.advance(3 * REFRESH_MS);
  assert.equal(state.warnings, 3);
  assert.deepEqual(namesOf(keys), ["aa"]);
  state.away = false;
  state.rows = [rowOf("bb")];
  await clock.advance(REFRESH_MS);
  assert.deepEqual(namesOf(keys), ["bb"]);
  keys.close();
});

Deno.test("an answer that hangs is not asked for again", async () => {
  const { clock, keys, state } = setup(rowOf("aa"));
  const gate = Promise.withResolvers<void>();
  state.gate = gate.promise;
  keys.start();
  await clock.advance(10 * REFRESH_MS);
  assert.equal(state.reads, 1);
  gate.resolve();
  await clock.advance(REFRESH_MS);
  assert.equal(state.reads, 2);
  keys.close();
});

Deno.test("an answer that was overtaken by a newer one does not bring a revoked key back", async () => {
  const { keys, state } = setup(rowOf("aa"));
  const gate = Promise.withResolvers<void>();
  state.gate = gate.promise;
  const slow = keys.refresh();
  state.gate = Promise.resolve();
  state.rows = [rowOf("aa", { revoked_at: new Date(1) })];
  await keys.refresh();
  gate.resolve();
  await slow;
  assert.equal(keys.current?.byLookupId.get("aa")?.revokedAt, 1);
});

Deno.test("a hint is followed at once, hints that come meanwhile by one more look that they wait for", async () => {
  const { keys, state } = setup(rowOf("aa"));
  const gate = Promise.withResolvers<void>();
  state.gate = gate.promise;
  const first = keys.check();
  state.rows = [rowOf("bb")];
  await settle();
  const hints = Array.from({ length: 5 }, () => keys.check());
  await settle();
  assert.equal(state.reads, 1);
  gate.resolve();
  await Promise.all(hints);
  assert.equal(state.reads, 2);
  await first;
  assert.deepEqual(namesOf(keys), ["bb"]);
  state.away = true;
  await keys.check();
  assert.equal(state.warnings, 1);
  state.away = false;
  state.rows = [];
  await keys.check();
  assert.deepEqual(namesOf(keys), []);
  keys.close();
  await keys.check();
  assert.equal(state.reads, 4);
});

Deno.test("after the end nobody looks any more, also when an answer is still to come", async () => {
  const { clock, keys, state } = setup(rowOf("aa"));
  const gate = Promise.withResolvers<void>();
  state.gate = gate.promise;
  keys.start();
  await clock.advance(REFRESH_MS);
  keys.close();
  gate.resolve();
  await settle();
  await clock.advance(2 * REFRESH_MS);
  assert.equal(state.reads, 1);
  keys.start();
  assert.equal(clock.pending(), 0);
  setup().keys.close();
});
