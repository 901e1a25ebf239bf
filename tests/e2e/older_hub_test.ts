import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";
import { SILENT_LOG } from "../../src/core/log.ts";
import { migrate } from "../../src/store/migrate.ts";
import { MIGRATIONS, startTestPostgres } from "../support/postgres.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { startTestHub } from "../support/test_hub.ts";

/** What the next version may bring: whatever only adds. */
const NEXT = `
  alter table hub.runs add column next_mood text not null default 'calm';
  alter table hub.run_events add column next_size int;
  create index runs_next on hub.runs (tenant_id, next_mood);
  create table hub.next (tenant_id uuid not null, next_id uuid not null, primary key (tenant_id, next_id));
`;

Deno.test("a hub that starts again while newer ones have brought the database further works as before", async () => {
  const upstream = await startScriptedUpstream(() => chatStream({ text: "One two three" }));
  const postgres = await startTestPostgres({ migrated: false });
  const base = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-older-" });
  try {
    const folder = `${base}/migrations`;
    await Deno.mkdir(folder);
    for (const { name } of [...Deno.readDirSync(MIGRATIONS)]) {
      await Deno.copyFile(new URL(name, MIGRATIONS), `${folder}/${name}`);
    }
    await Deno.writeTextFile(`${folder}/9998_next.sql`, NEXT);
    await migrate(postgres.url, { folder: pathToFileURL(`${folder}/`), log: SILENT_LOG });

    const warned: unknown[] = [];
    const warn = (_: string, fields?: { migrations?: unknown }) =>
      void warned.push(fields?.migrations);
    const hub = await startTestHub({
      providers: { one: { baseUrl: upstream.url } },
      defaultModel: "one/m",
    }, { databaseUrl: postgres.url, dataDir: `${base}/data`, log: { ...SILENT_LOG, warn } });
    try {
      assert.deepEqual(warned[0], ["9998_next.sql"]);
      const ready = await hub.call("/readyz");
      assert.equal(ready.status, 200, await ready.text());
      const session = (await (await hub.call("/v1/sessions", { body: {} })).json()).id;
      const path = `/v1/sessions/${session}/messages`;
      const answer = await hub.call(path, { body: { text: "Go", stream: false } });
      assert.equal((await answer.json()).run.status, "completed");
    } finally {
      await hub.close();
    }
  } finally {
    await upstream.stop();
    await postgres.stop();
    await Deno.remove(base, { recursive: true });
  }
});
