import assert from "node:assert/strict";
import { startHubProcess } from "../support/hub_process.ts";
import { startTestPostgres } from "../support/postgres.ts";
import { startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually } from "../support/test_hub.ts";

Deno.test("a changed file that workers would refuse changes none of them, and none is started with it", async () => {
  const upstream = await startScriptedUpstream();
  const postgres = await startTestPostgres({ migrated: false });
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-workers-" });
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
  };
  const write = (more: object) =>
    Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify({ ...config, ...more }));
  try {
    await write({});
    await Deno.mkdir(`${folder}/ws`);
    // A machine that has no bubblewrap.
    await Deno.mkdir(`${folder}/bin`);
    await Deno.symlink("/bin/sh", `${folder}/bin/sh`);
    const env = { DATABASE_URL: postgres.url, PATH: `${folder}/bin` };
    const hub = await startHubProcess(folder, env, ["--replicas", "2"]);
    try {
      const pids = () => hub.logged("A worker listens").map((line) => line.pid);
      const [first] = await eventually(() => pids().length === 2 ? pids() : null);
      await write({ workspace: { dir: "ws", sandbox: "required" } });
      const refused = "The configuration was not reloaded: the last good one stays";
      const [line] = await eventually(() =>
        hub.logged(refused).length > 0 ? hub.logged(refused) : null
      );
      assert.match(JSON.stringify(line), /wants a sandbox, and bubblewrap \(bwrap\) is not/);
      Deno.kill(first ?? assert.fail(), "SIGKILL");
      await eventually(() => pids().length === 3 ? true : null);
      assert.equal((await fetch(`${hub.url}/healthz`)).status, 200);
      assert.equal(hub.logged(refused).length, 1, "it is said once, by the parent");
    } finally {
      await hub.end("SIGKILL").catch(() => {});
    }
  } finally {
    await upstream.stop();
    await postgres.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
