import assert from "node:assert/strict";
import { toUuid } from "../../src/core/id.ts";
import type { Database } from "../../src/store/database.ts";
import { listMessages } from "../../src/store/messages.ts";
import { createSession, listSessions, updateSession } from "../../src/store/sessions.ts";
import { DEFAULT_TENANT_ID } from "../../src/store/tenant.ts";
import { testIds, withDatabase } from "../support/postgres.ts";

const tenantId = DEFAULT_TENANT_ID;
/** A caller that reaches all sessions of the tenant. */
const ALL = { tenantId, keyId: testIds.next("key"), sessions: "all" } as const;
const refused = { name: "HubError", code: "invalid_request" };
const forge = (value: unknown) =>
  btoa(JSON.stringify(value)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

async function newSession(db: Database, agent = "default") {
  const sessionId = testIds.next("ses");
  await createSession(db, { tenantId, sessionId, agent, keyId: testIds.next("key") });
  return sessionId;
}

Deno.test("cursors and values of requests", async (t) => {
  await withDatabase(async (db) => {
    await t.step("a forged cursor of sessions is an invalid request", async () => {
      const id = testIds.next("ses");
      const at = "2026-01-01T00:00:00.000000Z";
      const forged = [
        ["x", id],
        [5, id],
        [null, id],
        ["", id],
        ["9999-99-99T99:99:99.999999Z", id],
        ["2026-02-31T00:00:00.000000Z", id],
        ["infinity", id],
        [at, "x"],
        [at, 1],
        [at, "ses_x' or 1=1"],
        [at, `${id}0`],
        [at],
        [at, id, 1],
        { 0: at },
      ];
      for (const value of forged) {
        const after = forge(value);
        await assert.rejects(listSessions(db, { ...ALL, limit: 3, after }), refused, `${value}`);
      }
    });

    await t.step("so is one of messages", async () => {
      const sessionId = await newSession(db);
      const filter = { tenantId, sessionId, limit: 3, inFlight: true, superseded: true };
      for (const value of ["x", 1.5, 1e300, -1, 2 ** 31, "1", null, true]) {
        const after = forge([value]);
        await assert.rejects(listMessages(db, { ...filter, after }), refused, `${value}`);
      }
      assert.equal((await listMessages(db, { ...filter, after: forge([1]) })).messages.length, 0);
    });

    await t.step("a page goes on within one millisecond", async () => {
      const agent = `agent-${crypto.randomUUID()}`;
      const ids = [];
      for (const micros of [100, 200, 300, 400]) {
        const id = await newSession(db, agent);
        await db.control`update hub.sessions set
          created_at = '2026-01-01T00:00:00Z'::timestamptz + ${micros}::int * interval '1 microsecond'
          where session_id = ${toUuid(id)}`;
        ids.unshift(id);
      }
      const listed: string[] = [];
      let after: string | null = null;
      do {
        const options = { ...ALL, limit: 1, agent, ...(after === null ? {} : { after }) };
        const page: Awaited<ReturnType<typeof listSessions>> = await listSessions(db, options);
        listed.push(...page.sessions.map((session) => session.id));
        after = page.nextCursor;
      } while (after !== null);
      assert.deepEqual(listed, ids);
    });

    await t.step("what Postgres refuses to take as a value is an invalid request", async () => {
      const sessionId = await newSession(db);
      await assert.rejects(updateSession(db, { tenantId, sessionId, title: "a\0b" }), refused);
      const metadata = { a: "\0" };
      await assert.rejects(updateSession(db, { tenantId, sessionId, metadata }), refused);
      const createdAfter = "2026-13-45T00:00:00Z";
      await assert.rejects(listSessions(db, { ...ALL, limit: 3, createdAfter }), refused);
    });
  });
});
