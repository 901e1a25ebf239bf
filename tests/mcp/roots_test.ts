import assert from "node:assert/strict";
import { startAsking } from "../support/asking_server.ts";
import { fetchPackages, realServer } from "../support/real_mcp_servers.ts";
import { loadServers, type McpRig, withServers } from "./rig.ts";

const ROOTS = ["/srv/a b", { uri: "file:///srv/${WHERE}", name: "Documents" }];
const LISTED = [
  { uri: "file:///srv/a%20b" },
  { uri: "file:///srv/docs", name: "Documents" },
];

async function textOf(call: McpRig["call"], name: string): Promise<string> {
  return JSON.stringify(await call(name));
}

for (const era of ["legacy", "modern"] as const) {
  Deno.test(`a ${era} server is told its roots, and only what was configured`, async () => {
    const server = startAsking(era);
    const { url } = server;
    try {
      await withServers({ with: { url, roots: ROOTS }, none: { url, roots: [] } }, async (rig) => {
        await rig.mcp.settled(10_000);
        const told = await textOf(rig.call, "with__places");
        for (const root of LISTED) assert.ok(told.includes(root.uri), told);
        assert.match(told, /Documents/);
        if (era === "legacy") assert.ok("roots" in (server.seen.capabilities as object));
        const refused = await textOf(rig.call, "none__places").catch(String);
        assert.doesNotMatch(refused, /srv/);
        assert.match(refused, /roots|-32601/i);
        if (era === "legacy") assert.ok(!("roots" in (server.seen.capabilities as object)));
      }, { env: { WHERE: "docs" } });
    } finally {
      await server.stop();
    }
  });
}

Deno.test("server-everything lists the roots that it was configured with", async () => {
  await fetchPackages(["server-everything"]);
  const everything = realServer("server-everything", ["stdio"]);
  await withServers({
    with: { ...everything, roots: ROOTS },
    none: everything,
  }, async ({ mcp, call }) => {
    await mcp.settled(120_000);
    const told = await textOf(call, "with__get-roots-list");
    for (const { uri } of LISTED) assert.ok(told.includes(uri), told);
    assert.ok(!mcp.tools.some(({ name }) => name === "none__get-roots-list"));
  }, { env: { WHERE: "docs" } });
});

Deno.test("roots are absolute", () => {
  for (const root of ["srv", "https://x.test/a", "file://host/a", { name: "x" }]) {
    const { problems } = loadServers({ one: { url: "http://127.0.0.1:1/mcp", roots: [root] } });
    assert.equal(problems.length, 1, JSON.stringify(problems));
  }
});
