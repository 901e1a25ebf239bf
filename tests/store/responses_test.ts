import assert from "node:assert/strict";
import {
  cancelStored,
  findEnded,
  readResponseEvents,
  saveProgress,
} from "../../src/store/background_responses.ts";
import type { Database } from "../../src/store/database.ts";
import {
  deleteResponse,
  foreignItems,
  type NewResponse,
  pruneResponses,
  readChain,
  readResponse,
  saveResponse,
} from "../../src/store/responses.ts";
import { testIds, withDatabase } from "../support/postgres.ts";

const tenantId = "00000000-0000-7000-8000-000000000001";
const keyId = testIds.next("key");
const owner = { tenantId, keyId };
const strangers = [
  { tenantId, keyId: testIds.next("key") },
  { tenantId: "00000000-0000-7000-8000-000000000002", keyId },
];
const rowOf = (responseId: string, more: Partial<NewResponse> = {}): NewResponse => ({
  ...owner,
  responseId,
  target: null,
  lane: null,
  previousId: null,
  state: "completed",
  background: false,
  input: [{ type: "message", id: `msg_${responseId}`, content: "a\u0000\ud800" }],
  response: { id: responseId, output: [] },
  items: [],
  leaseMs: null,
  ...more,
});
const expire = (db: Database, ids: string[]) =>
  db.control`update hub.responses set expires_at = now() - interval '1 second'
    where response_id in ${db.control(ids)}`;

Deno.test("responses in Postgres", async (t) => {
  await withDatabase(async (db) => {
    await t.step("a chain is read oldest first, by its key alone", async () => {
      await saveResponse(db, rowOf("a"));
      await saveResponse(db, rowOf("b", { previousId: "a" }));
      await saveResponse(db, rowOf("c", { previousId: "b", target: "up/m", response: null }));
      const chain = await readChain(db, { ...owner, responseId: "c" });
      assert.deepEqual(chain.map(({ responseId }) => responseId), ["a", "b", "c"]);
      assert.deepEqual(chain[0]?.input, [{
        type: "message",
        id: "msg_a",
        content: "a\ufffd\ufffd",
      }]);
      assert.equal(chain[2]?.target, "up/m");
      for (const stranger of strangers) {
        const key = { ...stranger, responseId: "c" };
        assert.deepEqual(await readChain(db, key), []);
        assert.equal(await readResponse(db, key), null);
        assert.equal(await deleteResponse(db, key), false);
      }
    });

    await t.step("another key cannot take an id that is taken", async () => {
      const [stranger] = strangers;
      await saveResponse(db, { ...rowOf("a", { items: ["stolen"] }), ...stranger });
      assert.equal((await readResponse(db, { ...owner, responseId: "a" }))?.state, "completed");
      assert.deepEqual(await foreignItems(db, { ...owner, items: ["stolen"] }), ["stolen"]);
    });

    await t.step("items are their key's", async () => {
      await saveResponse(db, rowOf("with", { items: ["rs_1", "msg_1"] }));
      await saveResponse(db, rowOf("with", { items: ["rs_1", "msg_2"] }));
      const items = ["rs_1", "msg_1", "msg_2", "msg_3"];
      assert.deepEqual(await foreignItems(db, { ...owner, items }), ["msg_3"]);
      for (const stranger of strangers) {
        assert.equal((await foreignItems(db, { ...stranger, items })).length, 4);
      }
      await deleteResponse(db, { ...owner, responseId: "with" });
      assert.equal((await foreignItems(db, { ...owner, items })).length, 4);
    });

    await t.step("expired ones go, from the youngest of a conversation on", async () => {
      await expire(db, ["a"]);
      assert.equal(await readResponse(db, { ...owner, responseId: "a" }), null);
      assert.equal(await pruneResponses(db), 0);
      await expire(db, ["a", "b", "c"]);
      assert.equal(await pruneResponses(db, { batch: 1 }), 3);
      assert.deepEqual([...await db.read`select 1 from hub.responses`], []);
    });

    await t.step("progress is written once, until the response is ended elsewhere", async () => {
      const key = { ...owner, responseId: "bg" };
      const options = { background: true, leaseMs: 10_000 };
      await saveResponse(db, rowOf("bg", { ...options, state: "queued" }));
      const part = (seqFrom: number, count: number, state: "in_progress" | "completed") => ({
        state,
        response: { id: "bg", status: state },
        events: Array.from({ length: count }, (_, at) => ({
          type: "x",
          sequence_number: seqFrom + at,
        })),
        seqFrom,
        leaseMs: 10_000,
      });
      assert.equal(await saveProgress(db, key, part(0, 3, "in_progress")), true);
      assert.equal(await saveProgress(db, key, part(0, 3, "in_progress")), true);
      assert.equal(await saveProgress(db, key, part(3, 2, "in_progress")), true);
      for (let after = -1; after < 6; after++) {
        const events = await readResponseEvents(db, key, after);
        const numbers = events.map((event) => event["sequence_number"]);
        assert.deepEqual(numbers, [0, 1, 2, 3, 4].filter((number) => number > after));
      }
      assert.deepEqual([...await findEnded(db, [key])], []);
      await cancelStored(db, key);
      assert.deepEqual([...await findEnded(db, [key])], ["bg"]);
      assert.equal(await saveProgress(db, key, part(5, 1, "completed")), false);
      const stored = await readResponse(db, key);
      assert.equal(stored?.state, "cancelled");
      assert.equal(stored?.response?.["status"], "cancelled");
      assert.equal((await readResponseEvents(db, key, 4)).length, 0);
      await deleteResponse(db, key);
      assert.deepEqual([...await findEnded(db, [key])], ["bg"]);
    });

    await t.step("one whose maker is silent has failed", async () => {
      const options = { background: true, leaseMs: 10_000, state: "in_progress" } as const;
      await saveResponse(db, rowOf("lost", options));
      const key = { ...owner, responseId: "lost" };
      assert.equal((await readResponse(db, key))?.state, "in_progress");
      await db.control`update hub.responses set lease_until = now() - interval '1 second'
        where response_id = 'lost'`;
      const [lost] = await readChain(db, key);
      assert.equal(lost?.state, "failed");
      assert.equal(lost?.response?.["status"], "failed");
    });
  });
});
