import assert from "node:assert/strict";
import { SILENT_LOG } from "../../src/core/log.ts";
import { KeptResponses } from "../../src/run/kept_responses.ts";
import { toDatabaseError } from "../../src/store/database.ts";
import type { NewResponse } from "../../src/store/responses.ts";
import { createFakeClock, settle } from "../support/fake_clock.ts";
import { createFakeDatabase } from "../support/fake_database.ts";

const owner = { tenantId: "00000000-0000-0000-0000-000000000001", keyId: `key_${"0".repeat(32)}` };
const rowOf = (responseId: string, previousId: string | null = null): NewResponse => ({
  ...owner,
  responseId,
  target: null,
  lane: null,
  previousId,
  state: "completed",
  background: false,
  input: [{ type: "message", role: "user", content: responseId }],
  response: { id: responseId },
  items: [],
  leaseMs: null,
});

/** Kept responses over a Postgres that can go away; `stored` are the rows that it has. */
function setup() {
  const clock = createFakeClock();
  const state = { away: false, writes: 0, lines: 0 };
  const stored = new Map<string, NewResponse>();
  const rows = new Map<string, NewResponse>();
  const db = createFakeDatabase(({ text, values }) => {
    if (state.away) {
      return Promise.reject(toDatabaseError(Object.assign(new Error("no"), { code: "57P01" })));
    }
    const row = rows.get(String(values.find((value) => rows.has(String(value)))));
    if (text.includes("insert into hub.responses")) {
      state.writes++;
      if (row !== undefined) stored.set(row.responseId, row);
      return Promise.resolve([]);
    }
    if (text.includes("delete from")) {
      return Promise.resolve(row !== undefined && stored.delete(row.responseId) ? [1] : []);
    }
    const chain = [];
    for (let id = row?.responseId ?? null; id !== null;) {
      const found = stored.get(id);
      if (found === undefined) break;
      const { responseId: response_id, previousId: previous_id, state: status, ...rest } = found;
      chain.unshift({ ...rest, response_id, previous_id, status, lapsed: false });
      id = text.includes("recursive") ? previous_id : null;
    }
    return Promise.resolve(chain);
  });
  const log = { ...SILENT_LOG, warn: () => void state.lines++ };
  const kept = new KeptResponses({ db, clock, log });
  const keep = (row: NewResponse) => {
    rows.set(row.responseId, row);
    kept.keep(row);
  };
  const ids = async (responseId: string) =>
    (await kept.chain({ ...owner, responseId })).map((row) => row.responseId);
  return { clock, state, stored, kept, keep, ids };
}

Deno.test("a response is known here at once, and written behind", async () => {
  const { kept, keep, ids, stored } = setup();
  keep(rowOf("a"));
  keep(rowOf("b", "a"));
  assert.deepEqual(await ids("b"), ["a", "b"]);
  await settle();
  assert.deepEqual([...stored.keys()], ["a", "b"]);
  assert.deepEqual(await ids("b"), ["a", "b"]);
  await kept.close();
});

Deno.test("while Postgres is away this replica knows its own, and writes them later", async () => {
  const { kept, keep, ids, stored, state, clock } = setup();
  keep(rowOf("a"));
  await settle();
  state.away = true;
  keep(rowOf("b"));
  keep(rowOf("c", "b"));
  await clock.advance(5000);
  assert.deepEqual(await ids("c"), ["b", "c"]);
  await assert.rejects(ids("a"), { code: "database_unavailable" });
  state.away = false;
  await clock.advance(1000);
  assert.deepEqual([...stored.keys()], ["a", "b", "c"]);
  assert.equal(clock.pending(), 0);
  assert.equal(state.lines, 0);
  await kept.close();
});

Deno.test("what cannot be written for a minute is given up, with a line in the log", async () => {
  const { kept, keep, state, clock, stored } = setup();
  state.away = true;
  keep(rowOf("a"));
  await clock.advance(62_000);
  assert.equal(state.lines, 1);
  assert.equal(clock.pending(), 0);
  state.away = false;
  await kept.close();
  assert.equal(stored.size, 0);
});

Deno.test("a late one of another replica is waited for, and then it is not there", async () => {
  const { kept, keep, ids, stored, clock } = setup();
  keep(rowOf("late"));
  await settle();
  const row = stored.get("late");
  stored.delete("late");
  const looking = ids("late");
  await clock.advance(50);
  if (row !== undefined) stored.set("late", row);
  await clock.advance(50);
  assert.deepEqual(await looking, ["late"]);
  const never = ids("never");
  await clock.advance(400);
  assert.deepEqual(await never, []);
  await kept.close();
});

Deno.test("one that is deleted before it was written is gone", async () => {
  const { kept, keep, state, stored, clock, ids } = setup();
  state.away = true;
  keep(rowOf("a"));
  await settle();
  await assert.rejects(kept.delete({ ...owner, responseId: "a" }));
  state.away = false;
  await clock.advance(2000);
  assert.equal(stored.size, 0);
  const gone = ids("a");
  await clock.advance(400);
  assert.deepEqual(await gone, []);
  await kept.close();
});

Deno.test("what waits is bounded, and written when the hub ends", async () => {
  const { kept, keep, state, stored } = setup();
  state.away = true;
  for (let at = 0; at < 1001; at++) keep(rowOf(`r${at}`));
  await settle();
  assert.equal(state.lines, 1);
  state.away = false;
  await kept.close();
  assert.equal(stored.size, 1000);
});
