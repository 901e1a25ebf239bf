import assert from "node:assert/strict";
import { type CreatedRun, createRun } from "../../src/store/create_run.ts";
import { createSession } from "../../src/store/sessions.ts";
import { DEFAULT_TENANT_ID } from "../../src/store/tenant.ts";
import { openTestDatabase, testIds, withDatabase } from "../support/postgres.ts";

const tenantId = DEFAULT_TENANT_ID;
const REPLICAS = 8;
const ROUNDS = 25;

Deno.test("starts at the same moment on several connections are one run and no error", async () => {
  await withDatabase(async (db, url) => {
    const replicas = Array.from(
      { length: REPLICAS },
      () => openTestDatabase(url, { poolSize: 1, readPoolSize: 1 }),
    );
    const start = (at: number, sessionId: string, clientId: string) => {
      const replica = replicas[at] ?? db;
      return createRun(replica, {
        tenantId,
        sessionId,
        runId: testIds.next("run"),
        messageId: testIds.next("msg"),
        agent: "default",
        model: "m",
        owner: "test",
        leaseMs: 15_000,
        reserve: 100,
        userMessage: { messageId: testIds.next("msg"), clientId, hash: "h", parts: [] },
      });
    };
    const kinds = (starts: CreatedRun[]) => starts.map(({ kind }) => kind).sort();
    try {
      for (let round = 0; round < ROUNDS; round++) {
        for (const other of ["duplicate", "busy"]) {
          const sessionId = testIds.next("ses");
          const keyId = testIds.next("key");
          await createSession(db, { tenantId, sessionId, agent: "default", keyId });
          const clientId = (at: number) => other === "duplicate" ? "m" : `m${at}`;
          const starts = await Promise.all(
            replicas.map((_, at) => start(at, sessionId, clientId(at))),
          );
          const wanted = [...Array.from({ length: REPLICAS - 1 }, () => other), "created"].sort();
          assert.deepEqual(kinds(starts), wanted);
        }
      }
    } finally {
      await Promise.all(replicas.map((replica) => replica.close()));
    }
  });
});
