import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { SILENT_LOG } from "../../src/core/log.ts";
import { startEmbeddedPostgres } from "../../src/store/embedded_postgres.ts";
import { systemClock } from "../support/system_clock.ts";
import { eventually } from "../support/test_hub.ts";

const STARTER = fileURLToPath(new URL("../support/start_postgres.ts", import.meta.url));

/** Names in a folder that begin with these letters; none while it is not there. */
async function namesIn(folder: string, prefix: string): Promise<string[]> {
  try {
    return (await Array.fromAsync(Deno.readDir(folder)))
      .map(({ name }) => name).filter((name) => name.startsWith(prefix));
  } catch {
    return [];
  }
}

Deno.test("startEmbeddedPostgres: a start that was killed in initdb leaves the next one nothing to trip over", async (t) => {
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-initdb-" });
  await Deno.chmod(folder, 0o755);
  try {
    for (const [at, waitFor] of ["pg_wal", "postgresql.conf", "global", "base"].entries()) {
      await t.step(`killed once initdb has made ${waitFor}`, async () => {
        const dataDir = `${folder}/${at}`;
        const child = new Deno.Command(Deno.execPath(), {
          args: ["run", "--quiet", "--allow-all", STARTER, dataDir],
          ...{ stdin: "null", stdout: "null", stderr: "null" },
        }).spawn();
        await eventually(async () => {
          const fresh = (await namesIn(dataDir, "data.new"))
            .find((name) => !name.endsWith(".password"));
          if (fresh === undefined) return null;
          return (await namesIn(`${dataDir}/${fresh}`, waitFor)).length > 0 ? true : null;
        });
        child.kill("SIGKILL");
        await child.status;
        const server = await startEmbeddedPostgres({
          dataDir,
          log: SILENT_LOG,
          clock: systemClock,
        });
        assert.equal(server.firstStart, true);
        await server.stop();
        const again = await startEmbeddedPostgres({ dataDir, log: SILENT_LOG, clock: systemClock });
        assert.equal(again.firstStart, false);
        await again.stop();
        assert.deepEqual(await namesIn(dataDir, "data.new"), [], "half-made clusters are removed");
      });
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
