import assert from "node:assert/strict";
import { startTestPostgres } from "../support/postgres.ts";
import { createRawLog } from "../support/providers_rig.ts";
import { startScriptedUpstream } from "../support/scripted_upstream.ts";
import { loadTestConfig, startTestHub } from "../support/test_hub.ts";

Deno.test("a start, and a changed file, name MCP servers of whose tools each call asks a person", async () => {
  const upstream = await startScriptedUpstream();
  const postgres = await startTestPostgres({ migrated: false });
  const dataDir = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-asking-" });
  const { log, lines } = createRawLog();
  const configOf = (...names: string[]) => ({
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    mcpServers: {
      ...Object.fromEntries(names.map((name) => [name, { command: "true" }])),
      reads: { command: "true", effect: { "get_*": "pure" } },
    },
  });
  const named = () =>
    lines.flatMap((line) => /^mcpServers\.(\w+): each call by default asks/.exec(line)?.[1] ?? []);
  const options = { databaseUrl: postgres.url, dataDir, log };
  const hub = await startTestHub(configOf("first"), options);
  try {
    assert.deepEqual(named(), ["first"]);
    await hub.hub.reload(await loadTestConfig(configOf("first", "second"), options));
    assert.deepEqual(named(), ["first", "second"]);
  } finally {
    await hub.close();
    await upstream.stop();
    await postgres.stop();
    await Deno.remove(dataDir, { recursive: true });
  }
});
