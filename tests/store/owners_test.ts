import assert from "node:assert/strict";
import fc from "fast-check";
import { pathToFileURL } from "node:url";
import postgres from "postgres";
import { type Id, toUuid } from "../../src/core/id.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import { type Access, belongingOf, reaches } from "../../src/core/ownership.ts";
import type { Database } from "../../src/store/database.ts";
import { migrate } from "../../src/store/migrate.ts";
import {
  createSession,
  listSessions,
  readSession,
  readSessionByExternalId,
} from "../../src/store/sessions.ts";
import { DEFAULT_TENANT_ID } from "../../src/store/tenant.ts";
import { readResponse } from "../../src/store/responses.ts";
import {
  MIGRATIONS,
  openTestDatabase,
  startTestPostgres,
  testIds,
  withDatabase,
} from "../support/postgres.ts";

const tenantId = DEFAULT_TENANT_ID;
const KEYS = [1, 2, 3].map(() => testIds.next("key"));
const [A, B, C] = KEYS.map((keyId) => ({ tenantId, keyId })) as [Access, Access, Access];

/** The next id, made and stored as the API does. */
async function make(db: Database, access: Access, externalId?: string) {
  const owned = { ...belongingOf(access), tenantId, keyId: access.keyId };
  const named = externalId === undefined ? {} : { externalId };
  return await createSession(db, {
    ...owned,
    ...named,
    sessionId: testIds.next("ses"),
    agent: "default",
  });
}

const accesses: fc.Arbitrary<Access> = fc.record({
  tenantId: fc.constant(tenantId),
  keyId: fc.constantFrom(...KEYS),
  // The text of a key's id, and of a reference to one, must not stand for the key.
  owner: fc.constantFrom(
    null,
    "alice",
    "bob",
    toUuid(A.keyId as Id),
    `key:${A.keyId}`,
  ),
  sessions: fc.constantFrom("own", "owner", "all"),
});

Deno.test("ownership: SQL and reaches() agree on who reaches a session, by id, by name and in lists", async () => {
  await withDatabase(async (db) => {
    const seed = Number(Deno.env.get("FC_SEED") ?? Math.floor(Math.random() * 2 ** 31));
    await fc.assert(
      fc.asyncProperty(accesses, accesses, fc.uuid(), async (maker, reader, externalId) => {
        const { id } = await make(db, maker, externalId);
        const wanted = reaches(reader, belongingOf(maker));
        assert.equal(await readSession(db, { ...reader, sessionId: id }) !== null, wanted);
        const named = await readSessionByExternalId(db, { ...reader, externalId });
        assert.equal(named?.session.id ?? null, wanted ? id : null);
        const { sessions } = await listSessions(db, { ...reader, limit: 1 });
        assert.equal(sessions.some((session) => session.id === id), wanted);
      }),
      { seed, numRuns: 150 },
    );
  });
});

Deno.test("ownership: an external id names one session of an owner", async (t) => {
  await withDatabase(async (db) => {
    const alice = { ...A, owner: "alice" };
    const sibling = { ...B, owner: "alice" };
    const bob = { ...C, owner: "bob" };

    await t.step("20 at once by two keys of an owner are one", async () => {
      const made = await Promise.all(
        Array.from({ length: 20 }, (_, at) => make(db, at % 2 === 0 ? alice : sibling, "chat")),
      );
      assert.equal(new Set(made.map(({ id }) => id)).size, 1);
    });

    await t.step("another owner has another", async () => {
      const own = await make(db, alice, "chat");
      const others = await make(db, bob, "chat");
      assert.notEqual(own.id, others.id);
      const found = await readSessionByExternalId(db, { ...bob, externalId: "chat" });
      assert.deepEqual([found?.session.id, found?.isAmbiguous], [others.id, false]);
    });

    await t.step(
      "one that reaches all means its own first, and else has to say which",
      async () => {
        const all = { ...testAccess(), sessions: "all" as const, externalId: "chat" };
        assert.equal((await readSessionByExternalId(db, all))?.isAmbiguous, true);
        const bobs = { ...bob, sessions: "all" as const, externalId: "chat" };
        assert.equal((await readSessionByExternalId(db, bobs))?.isAmbiguous, false);
      },
    );
  });
});

const testAccess = (): Access => ({ tenantId, keyId: testIds.next("key") });

Deno.test("ownership: a key's list pages through what it reaches in order, by an index", async (t) => {
  await withDatabase(async (db) => {
    await db.control`
      insert into hub.sessions (tenant_id, session_id, agent, key_id, owner, created_at)
      select ${tenantId}::uuid, gen_random_uuid(), 'default',
        case n % 30 when 0 then ${toUuid(A.keyId as Id)}::uuid else ${
      toUuid(B.keyId as Id)
    }::uuid end,
        case n % 30 when 0 then null when 1 then 'alice' else 'owner ' || n end,
        now() - n * interval '1 second'
      from generate_series(1, 6000) as n`;
    await db.control.unsafe("analyze hub.sessions");
    const alice: Access = { ...A, owner: "alice" };

    await t.step("each once, the newest first", async () => {
      const listed: string[] = [];
      for (let after: string | null = null;;) {
        const page = await listSessions(db, {
          ...alice,
          limit: 70,
          ...after === null ? {} : { after },
        });
        listed.push(...page.sessions.map(({ createdAt, id }) => `${createdAt} ${id}`));
        after = page.nextCursor;
        if (after === null) break;
      }
      assert.equal(new Set(listed).size, 400);
      assert.deepEqual(listed, listed.toSorted().toReversed());
    });

    for (
      const [sessions, index] of [["owner", "sessions_of_owner"], [
        "own",
        "sessions_of_key",
      ]] as const
    ) {
      await t.step(
        `with sessions: ${sessions} by ${index}, without a sort of them all`,
        async () => {
          const plan = await planOf(db, { ...alice, sessions });
          assert.match(plan, new RegExp(index));
          assert.doesNotMatch(plan, /Seq Scan on sessions|Sort .*rows=[1-9]\d{2}/);
        },
      );
    }
  });
});

/** How Postgres would run the first statement of a list. */
async function planOf(db: Database, access: Access): Promise<string> {
  const plans: string[] = [];
  const explaining: Database = Object.create(db, {
    within: {
      value: async (query: { strings: TemplateStringsArray }) => {
        const described = query as unknown as { describe(): Promise<{ string: string }> };
        const { string } = await described.describe();
        plans.push(string);
        return [];
      },
    },
  });
  await listSessions(explaining, { ...access, limit: 10 });
  const statement = plans[0] ?? "";
  const values = parametersOf(statement, access);
  const rows = await db.read.unsafe<{ "QUERY PLAN": string }[]>(`explain ${values}`);
  return rows.map((row) => row["QUERY PLAN"]).join("\n");
}

/** The statement with its parameters written out. */
function parametersOf(statement: string, access: Access): string {
  const key = toUuid(access.keyId as Id);
  return statement
    .replaceAll(/tenant_id = \$\d+/g, `tenant_id = '${access.tenantId}'`)
    .replaceAll(/key_id = \$\d+::uuid/g, `key_id = '${key}'::uuid`)
    .replaceAll(/limit \$\d+/g, "limit 11")
    .replace(/= \$\d+/, `= 'owner:${access.owner}'`)
    .replace(/= \$\d+/, `= 'key:${key}'`);
}

Deno.test("migration 0032: earlier sessions and responses go to the owner of the key that made them", async () => {
  const server = await startTestPostgres({ migrated: false });
  const base = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-owners-" });
  const sql = postgres(server.url, { max: 1, onnotice() {} });
  try {
    for (const { name } of Deno.readDirSync(MIGRATIONS)) {
      if (name < "0032") await Deno.copyFile(new URL(name, MIGRATIONS), `${base}/${name}`);
    }
    await migrate(server.url, { folder: pathToFileURL(`${base}/`), log: SILENT_LOG });
    const [ofAlice, alone, gone] = KEYS.map((id) => toUuid(id as Id));
    const session = (key: string | null, name: string) =>
      sql`insert into hub.sessions (tenant_id, session_id, agent, key_id, external_id)
        values (${tenantId}, gen_random_uuid(), 'default', ${key}, ${name}) returning session_id as id`;
    for (const [key, owner] of [[ofAlice, "alice"], [alone, null]] as const) {
      await sql`insert into hub.api_keys (tenant_id, key_id, name, role, lookup_id, secret_hash, owner)
        values (${tenantId}, ${key ?? null}, 'k', 'user', ${String(key)}, '', ${owner})`;
    }
    await session(ofAlice ?? null, "of an owner");
    await session(alone ?? null, "of a key alone");
    await session(gone ?? null, "of a key that is not there");
    await session(null, "of no key");
    const [unsaid] = await session(null, "of its first run's key");
    const run = (key: string | null, at: string) =>
      sql`insert into hub.runs (tenant_id, run_id, session_id, message_id, agent, model, status, key_id, created_at)
        values (${tenantId}, gen_random_uuid(), ${
        String(unsaid?.["id"])
      }, gen_random_uuid(), 'default', 'm', 'completed', ${key}, ${at})`;
    await run(null, "2026-01-01");
    await run(ofAlice ?? null, "2026-01-02");
    await run(alone ?? null, "2026-01-03");
    await sql`insert into hub.responses (tenant_id, response_id, key_id, status, background, expires_at)
      values (${tenantId}, 'resp_1', ${
      ofAlice ?? null
    }, 'completed', false, now() + interval '1 day')`;
    await migrate(server.url, { folder: MIGRATIONS, log: SILENT_LOG });

    const db = openTestDatabase(server.url);
    try {
      const seenBy = async (access: Access) =>
        (await listSessions(db, { ...access, limit: 10 })).sessions
          .map(({ externalId }) => externalId).sort();
      const alice = { ...testAccess(), owner: "alice" };
      assert.deepEqual(await seenBy(alice), ["of an owner", "of its first run's key"]);
      assert.deepEqual(await seenBy(B), ["of a key alone"]);
      assert.deepEqual(await seenBy(testAccess()), []);
      assert.equal((await seenBy({ ...testAccess(), sessions: "all" })).length, 5);
      assert.notEqual(await readResponse(db, { ...alice, responseId: "resp_1" }), null);
      assert.equal(await readResponse(db, { ...B, responseId: "resp_1" }), null);
    } finally {
      await db.close();
    }
  } finally {
    await sql.end();
    await server.stop();
    await Deno.remove(base, { recursive: true });
  }
});
