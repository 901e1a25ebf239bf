import assert from "node:assert/strict";
import postgres from "postgres";
import type { Json, JsonObject } from "../../src/core/json.ts";
import { createAdmin } from "../support/providers_rig.ts";
import { startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, withHub } from "../support/test_hub.ts";

type Answer = Awaited<ReturnType<ReturnType<typeof createAdmin>>>;

/** Begins both, and lets neither write before both have read. */
async function heldBack(
  url: string,
  begin: () => [Promise<Answer>, Promise<Answer>],
): Promise<[Answer, Answer]> {
  const sql = postgres(url, { max: 2 });
  try {
    const begun = await sql.begin(async (tx) => {
      await tx`select 1 from hub.clients for update`;
      const both = begin();
      await eventually(async () =>
        (await sql`select 1 from pg_locks where not granted`).length >= 2 ? true : null
      );
      return { both };
    });
    return await Promise.all(begun.both);
  } finally {
    await sql.end();
  }
}

Deno.test("changes of one provider at the same time never mix", async (t) => {
  const upstream = await startScriptedUpstream();
  const config = { providers: { file: { baseUrl: upstream.url } }, defaultModel: "file/m" };
  try {
    await withHub(config, async (hub) => {
      const admin = createAdmin(hub);
      const add = async (name: string, more: JsonObject = {}) => {
        const made = await admin("providers", { body: { name, baseUrl: upstream.url, ...more } });
        return `providers/${made.value["id"]}`;
      };
      const patch = (path: string, body: Json) => admin(path, { method: "PATCH", body });

      await t.step(
        "what one admin was told was changed stays when another changes more",
        async () => {
          const path = await add("many");
          const changes: JsonObject[] = [
            { maxConcurrent: 11 },
            { maxQueued: 12 },
            { maxRetries: 1 },
            { queueTimeoutMs: 1300 },
            { models: ["m14"] },
            { timeouts: { totalMs: 15_000 } },
          ];
          for (let round = 0; round < 5; round++) {
            await patch(
              path,
              Object.fromEntries(changes.flatMap(Object.keys).map((n) => [n, null])),
            );
            const answers = await Promise.all(changes.map((change) => patch(path, change)));
            const settings = (await admin(path)).value["settings"] as JsonObject;
            let made = 0;
            for (const [index, { status }] of answers.entries()) {
              assert.ok(status === 200 || status === 409, `${status}`);
              if (status !== 200) continue;
              made++;
              for (const [name, value] of Object.entries(changes[index] ?? {})) {
                assert.deepEqual(settings[name], value, name);
              }
            }
            assert.ok(made >= 1);
          }
        },
      );

      await t.step("no secret comes to an address that it was not given for", async () => {
        const here = upstream.url;
        const there = "http://127.0.0.1:9/v1";
        for (let round = 0; round < 4; round++) {
          const path = await add(`moved-${round}`, { apiKey: "key-of-here-1" });
          const [moved, other] = await heldBack(hub.databaseUrl, () => [
            patch(path, { baseUrl: there, apiKey: "key-of-there" }),
            round % 2 === 0
              ? patch(path, { headers: { "x-secret": "header-of-here" } })
              : admin(`${path}/rotate`, { body: { apiKey: "key-of-here-2" } }),
          ]);
          assert.deepEqual([moved.status, other.status].toSorted(), [200, 409]);
          const { value } = await admin(path);
          const isMoved = moved.status === 200;
          assert.equal(value["baseUrl"], isMoved ? there : here);
          assert.deepEqual(value["headers"], isMoved || round % 2 === 1 ? [] : ["x-secret"]);
        }
      });
    });
  } finally {
    await upstream.stop();
  }
});
