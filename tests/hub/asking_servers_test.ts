import assert from "node:assert/strict";
import { askingServers, tellAskingServers } from "../../src/hub/asking_servers.ts";
import { loadText, LOCAL } from "../config/load_fixture.ts";
import { createRawLog } from "../support/providers_rig.ts";

async function load(mcpServers: Record<string, unknown>, agents: Record<string, unknown> = {}) {
  return (await loadText({ providers: { local: LOCAL }, mcpServers, agents })).config;
}

const SILENT = { command: "npx" };

Deno.test("a server of whose tools nothing is said is named, with the agents that will ask", async () => {
  const config = await load({
    silent: SILENT,
    writes: { ...SILENT, effect: { "put_*": "idempotent" } },
    reads: { ...SILENT, effect: { "get_*": "pure" } },
    trusted: { ...SILENT, trust: true },
    off: { ...SILENT, enabled: false },
    open: { ...SILENT, prefix: false },
  }, {
    default: { tools: ["hub.*"] },
    all: { tools: ["*"] },
    one: { tools: ["silent__look", "hub.*"] },
    denies: { tools: ["!silent__*"] },
    careless: { approvals: { tainted: "allow" } },
    none: { tools: [] },
  });
  assert.deepEqual(askingServers(config), [
    { server: "silent", agents: ["all", "one"] },
    { server: "writes", agents: ["all", "denies"] },
    { server: "open", agents: ["default", "all", "one", "denies"] },
  ]);
  assert.deepEqual(askingServers(await load({})), []);
});

Deno.test("it is said once, and again when it is about others", async () => {
  const { log, lines } = createRawLog();
  const told = new Set<string>();
  const one = await load({ one: SILENT });
  tellAskingServers(one, { told, log });
  tellAskingServers(one, { told, log });
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? "", /mcpServers\.one: each call by default asks a person once one was/);
  tellAskingServers(await load({ one: SILENT, two: SILENT }), { told, log });
  assert.equal(lines.length, 2);
});
