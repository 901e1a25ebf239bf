import assert from "node:assert/strict";
import { startHubProcess } from "../support/hub_process.ts";
import { startTestPostgres } from "../support/postgres.ts";
import { eventually } from "../support/test_hub.ts";

const SPY = new URL("../fixtures/mcp-servers/spy.mjs", import.meta.url).pathname;

Deno.test("what an agent writes into a folder of PATH is not run for MCP servers", async () => {
  const folder = await Deno.realPath(
    await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-planted-" }),
  );
  const bin = `${folder}/ws/bin`;
  await Deno.mkdir(bin, { recursive: true });
  await Deno.writeTextFile(`${bin}/bwrap`, `#!/bin/sh\necho ran >> ${folder}/ran\nexit 1\n`);
  await Deno.chmod(`${bin}/bwrap`, 0o755);
  const config = {
    workspace: { dir: "ws" },
    mcpServers: {
      spy: {
        command: Deno.execPath(),
        args: ["run", "-A", "--no-config", "--no-lock", SPY],
        timeoutMs: 120_000,
        connectTimeoutMs: 120_000,
      },
    },
  };
  await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
  const postgres = await startTestPostgres({ migrated: false });
  const hub = await startHubProcess(folder, {
    DATABASE_URL: postgres.url,
    PATH: `${bin}:${Deno.env.get("PATH")}`,
  });
  try {
    const key = await eventually(() => hub.key());
    await eventually(async () => {
      const answer = await fetch(`${hub.url}/v1/admin/mcp`, {
        headers: { authorization: `Bearer ${key}` },
      });
      const { data } = await answer.json() as { data: { name: string; state: string }[] };
      return data.some(({ name, state }) => name === "spy" && state === "ready") || null;
    }, 120_000);
    await assert.rejects(Deno.stat(`${folder}/ran`), Deno.errors.NotFound);
  } finally {
    await hub.end("SIGTERM");
    await postgres.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
