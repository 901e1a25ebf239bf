import assert from "node:assert/strict";
import { startHubProcess } from "../support/hub_process.ts";
import { startTestPostgres } from "../support/postgres.ts";
import { startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually } from "../support/test_hub.ts";

/** An operation of the operator's own that has the name of one of workspaces. */
const OPERATION = `import { defineOperation, Type } from ${
  JSON.stringify(new URL("../../src/operations/operation.ts", import.meta.url).href)
};
export default defineOperation({
  namespace: "file",
  name: "read",
  description: "Reads",
  input: Type.Object({}),
  run: () => "",
});
`;

Deno.test("a changed file that workers would refuse changes none of them, and none is started with it", async () => {
  const upstream = await startScriptedUpstream();
  const postgres = await startTestPostgres({ migrated: false });
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-workers-" });
  await Deno.writeTextFile(`${folder}/own.ts`, OPERATION);
  const config = {
    operations: { modules: ["./own.ts"] },
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
      const refused = "The configuration was not reloaded: the last good one stays";
      const wrong: [object, RegExp][] = [
        [
          { workspace: { dir: "ws", sandbox: "required" } },
          /wants a sandbox, and bubblewrap \(bwrap\) is not/,
        ],
        // Only workers know the names of operations.
        [{ workspace: { dir: "ws" } }, /An operation of yours is named file\.read/],
      ];
      let killed = first ?? assert.fail();
      for (const [index, [more, words]] of wrong.entries()) {
        await write(more);
        const lines = await eventually(() =>
          hub.logged(refused).length > index ? hub.logged(refused) : null
        );
        assert.match(JSON.stringify(lines.at(-1)), words);
        Deno.kill(Number(killed), "SIGKILL");
        killed = await eventually(() => pids()[2 + index] ?? null);
        assert.equal((await fetch(`${hub.url}/healthz`)).status, 200);
        assert.equal(hub.logged(refused).length, index + 1, "it is said once, by the parent");
      }
      await write({ agents: { default: {}, brief: {} } });
      const taken = "The configuration was reloaded";
      await eventually(() => hub.logged(taken).length === 2 ? true : null);
    } finally {
      await hub.end("SIGKILL").catch(() => {});
    }
  } finally {
    await upstream.stop();
    await postgres.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
