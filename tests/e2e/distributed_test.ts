import assert from "node:assert/strict";
import { startPickyPostgres } from "../support/picky_postgres.ts";
import { startTestPostgres } from "../support/postgres.ts";
import { replicasWork, withHubsAt } from "../support/replica_steps.ts";
import { eventually } from "../support/test_hub.ts";

/** Runs a body with a door that refuses what the switches are about. */
async function withDoor(
  body: (door: { url: string; refused: readonly string[] }) => Promise<void>,
): Promise<void> {
  const postgres = await startTestPostgres();
  const door = await startPickyPostgres(postgres.url);
  try {
    await body(door);
  } finally {
    await door.stop();
    await postgres.stop();
  }
}

Deno.test("with the switches off replicas work where there is no NOTIFY, SKIP LOCKED or prepared statement", async (t) => {
  await withDoor(async ({ url, refused }) => {
    const off = { prepare: false, notify: false, skipLocked: false };
    await withHubsAt(url, off, async ({ start, upstream }) => {
      await replicasWork(t, { first: await start(), second: await start(), upstream });
    });
    assert.deepEqual(refused, []);
  });
});

Deno.test("with the switches on the same door refuses a hub what they are about", async () => {
  await withDoor(async ({ url, refused }) => {
    const said = (pattern: RegExp) =>
      eventually(() => Promise.resolve(refused.some((text) => pattern.test(text)) || null));
    const on = { prepare: true, notify: true, skipLocked: true };
    await withHubsAt(url, on, async ({ start }) => {
      await assert.rejects(start(), { code: "internal_error" });
      await said(/^a prepared statement: /);
    });
    await withHubsAt(url, { ...on, prepare: false }, async ({ start }) => {
      await start();
      await said(/^LISTEN: listen loophub$/);
      await said(/^SKIP LOCKED: /);
    });
  });
});
