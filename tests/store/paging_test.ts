import assert from "node:assert/strict";
import { type Id, toUuid } from "../../src/core/id.ts";
import { encodeCursor } from "../../src/store/cursor.ts";
import type { Database } from "../../src/store/database.ts";
import { listMessages } from "../../src/store/messages.ts";
import { createSession, listSessions, type SessionFilter } from "../../src/store/sessions.ts";
import { DEFAULT_TENANT_ID } from "../../src/store/tenant.ts";
import { testIds, withDatabase } from "../support/postgres.ts";

const tenantId = DEFAULT_TENANT_ID;
/** A caller that reaches all sessions of the tenant. */
const ALL = { tenantId, keyId: testIds.next("key"), sessions: "all" } as const;

async function newSession(db: Database, agent: string, createdAt?: string): Promise<string> {
  const sessionId = testIds.next("ses");
  await createSession(db, { tenantId, sessionId, agent, keyId: testIds.next("key") });
  if (createdAt !== undefined) {
    await db.within(db.control`
      update hub.sessions set created_at = ${createdAt}::text::timestamptz
      where session_id = ${toUuid(sessionId)}`);
  }
  return sessionId;
}

/** Inserts messages with a text each at these positions, as one statement. */
async function addMessages(db: Database, sessionId: string, positions: number[]): Promise<void> {
  const session = toUuid(sessionId as Id);
  await db.within(db.control`
    with said as (
      insert into hub.messages (tenant_id, message_id, session_id, position, role)
      select ${tenantId}::uuid, gen_random_uuid(), ${session}::uuid, p, 'user'
      from unnest(string_to_array(${positions.join()}, ',')::int[]) p returning message_id, position)
    insert into hub.parts (tenant_id, message_id, part_index, type, content)
    select ${tenantId}::uuid, message_id, 0, 'text',
      json_build_object('type', 'text', 'id', 't', 'text', position::text, 'state', 'done') from said`);
}

/** Reads page after page; `between` runs before each next one. */
async function allSessions(
  db: Database,
  filter: Omit<SessionFilter, "tenantId" | "keyId">,
  between: (page: number) => Promise<unknown> = () => Promise.resolve(),
): Promise<string[]> {
  const listed: string[] = [];
  let after: string | undefined;
  for (let page = 0;; page++) {
    const { sessions, nextCursor } = await listSessions(db, {
      ...ALL,
      ...filter,
      ...(after === undefined ? {} : { after }),
    });
    assert.ok(sessions.length <= filter.limit);
    listed.push(...sessions.map((session) => session.id));
    if (nextCursor === null) return listed;
    after = nextCursor;
    await between(page);
  }
}

const HOSTILE = [
  "",
  "null",
  "' or 1=1 --",
  "%00",
  "ü",
  btoa("{}"),
  btoa("[]"),
  ...[
    [0, 1, 2],
    [null],
    [{}],
    ["1; drop table hub.sessions"],
    [-1],
    [1.5],
    [1e300],
    [2 ** 31],
    ["2026-01-01T00:00:00.000000Z"],
    ["yesterday", "ses_00000000000070008000000000000000"],
    ["infinity", "ses_00000000000070008000000000000000"],
    ["2026-02-31T00:00:00.000000Z", "ses_00000000000070008000000000000000"],
    ["2026-13-01T00:00:00.000000Z", "ses_00000000000070008000000000000000"],
    ["2026-01-01T00:00:00.000000Z", "ses_x"],
    ["2026-01-01T00:00:00.000000Z", "msg_00000000000070008000000000000000"],
    ["2026-01-01T00:00:00.000000Z", 1],
    [["2026-01-01T00:00:00.000000Z"], "ses_00000000000070008000000000000000"],
  ].map((key) => encodeCursor(key as (string | number)[])),
];
const REFUSED = { code: "invalid_request", message: /next_cursor of an earlier page/ };

Deno.test("pages of sessions and messages", async (t) => {
  await withDatabase(async (db) => {
    await t.step(
      "sessions of one millisecond, and of one microsecond, come once each",
      async () => {
        const agent = "same-moment";
        const ids: string[] = [];
        for (let index = 0; index < 12; index++) {
          const micros = String(Math.floor(index / 3) * 7 + 100).padStart(3, "0");
          ids.unshift(await newSession(db, agent, `2026-01-02T03:04:05.678${micros}Z`));
        }
        for (const limit of [1, 2, 5, 12, 200]) {
          assert.deepEqual(await allSessions(db, { agent, limit }), ids, `pages of ${limit}`);
        }
      },
    );

    await t.step("sessions made between two pages neither shift nor double a row", async () => {
      const agent = "growing";
      const ids: string[] = [];
      for (let index = 0; index < 10; index++) ids.unshift(await newSession(db, agent));
      const listed = await allSessions(db, { agent, limit: 3 }, async () => {
        await newSession(db, agent);
        await newSession(db, agent);
      });
      assert.deepEqual(listed, ids);
    });

    await t.step(
      "a session deleted behind the cursor, and the cursor's own, lose no other",
      async () => {
        const agent = "shrinking";
        const ids: string[] = [];
        for (let index = 0; index < 9; index++) ids.unshift(await newSession(db, agent));
        const listed = await allSessions(db, { agent, limit: 3 }, async (page) => {
          const gone = [ids[page * 3], ids[page * 3 + 2]].map((id) => toUuid(id as Id));
          await db.within(
            db.control`delete from hub.sessions where session_id = any(string_to_array(${gone.join()}, ',')::uuid[])`,
          );
        });
        assert.deepEqual(listed, ids);
      },
    );

    await t.step("a cursor of one tenant shows another one nothing of it", async () => {
      const { nextCursor } = await listSessions(db, { ...ALL, agent: "growing", limit: 3 });
      const page = await listSessions(db, {
        ...ALL,
        tenantId: "00000000-0000-7000-8000-000000000002",
        limit: 100,
        after: nextCursor ?? "",
      });
      assert.deepEqual(page, { sessions: [], nextCursor: null });
    });

    await t.step("messages come once each while the session grows", async () => {
      const sessionId = await newSession(db, "talking");
      const other = await newSession(db, "talking");
      await addMessages(db, sessionId, [1, 2, 3, 4, 5, 6, 7]);
      await addMessages(db, other, [1, 2, 3]);
      const listed: number[] = [];
      let after: string | undefined;
      let last = 7;
      do {
        const page = await listMessages(db, {
          tenantId,
          sessionId,
          limit: 2,
          inFlight: true,
          superseded: true,
          ...(after === undefined ? {} : { after }),
        });
        for (const { position, parts } of page.messages) {
          assert.deepEqual(parts.map((part) => part.type === "text" && part.text), [`${position}`]);
          listed.push(position);
        }
        if (last < 10) await addMessages(db, sessionId, [++last]);
        after = page.nextCursor ?? undefined;
      } while (after !== undefined);
      assert.deepEqual(listed, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    });

    await t.step("messages left out by the filter do not end the list early", async () => {
      const sessionId = await newSession(db, "talking");
      await addMessages(db, sessionId, [1, 2, 3, 4, 5, 6]);
      await db.within(db.control`
        update hub.messages set superseded_at = now()
        where session_id = ${toUuid(sessionId as Id)} and position between 2 and 4`);
      const filter = { tenantId, sessionId, limit: 2, inFlight: true };
      const first = await listMessages(db, { ...filter, superseded: false });
      assert.deepEqual(first.messages.map((message) => message.position), [1, 5]);
      const rest = await listMessages(db, {
        ...filter,
        superseded: false,
        after: first.nextCursor ?? "",
      });
      assert.deepEqual(rest.messages.map((message) => message.position), [6]);
      assert.equal(rest.nextCursor, null);
      const every = await listMessages(db, { ...filter, limit: 10, superseded: true });
      assert.deepEqual(every.messages.map((m) => m.superseded), [
        false,
        true,
        true,
        true,
        false,
        false,
      ]);
    });

    await t.step("a cursor that the hub did not give out is refused as such", async () => {
      const filter = { tenantId, sessionId: testIds.next("ses"), inFlight: true };
      for (const after of HOSTILE) {
        await assert.rejects(listSessions(db, { ...ALL, limit: 3, after }), REFUSED, after);
        const messages = listMessages(db, { ...filter, superseded: true, limit: 3, after });
        await assert.rejects(messages, REFUSED, after);
      }
    });
  });
});
