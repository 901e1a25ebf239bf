import assert from "node:assert/strict";
import { loadText, LOCAL, refusal } from "./load_fixture.ts";

const providers = { local: LOCAL };

Deno.test("folders of workspaces are absolute, and limited unless told", async () => {
  const { config } = await loadText({
    providers,
    workspace: { dir: "ws" },
    agents: {
      free: { workspace: { dir: "/srv", securityMode: "full-control" } },
      none: { workspace: false },
    },
  });
  assert.deepEqual([config.workspace?.dir, config.workspace?.securityMode], [
    "/work/ws",
    "limited-control",
  ]);
  const { free, none } = config.agents;
  assert.equal(none?.workspace, false);
  assert.ok(typeof free?.workspace === "object" && free.workspace.dir === "/srv");
});

Deno.test("a limited workspace holds nothing that would let an agent out of it", async () => {
  const dirOf = async (dir: string, more: Record<string, unknown> = {}) =>
    (await refusal(loadText({ providers, workspace: { dir }, ...more }, {
      files: { "/work/ws/ops.ts": "" },
    }))).problems.map(({ path, got }) => `${path}: ${got}`);
  assert.deepEqual(await dirOf("."), [
    "workspace.dir: /work, which holds the configuration file",
  ]);
  assert.deepEqual(await dirOf("/"), ["workspace.dir: /, which holds the configuration file"]);
  assert.deepEqual(await dirOf("ws", { database: { dataDir: "ws/data" } }), [
    "workspace.dir: /work/ws, which holds the hub's data",
  ]);
  assert.deepEqual(await dirOf("ws", { operations: { modules: ["ws/ops.ts"] } }), [
    "workspace.dir: /work/ws, which holds a module with operations",
  ]);
  const own = { workspace: { dir: "." } };
  assert.deepEqual(await dirOf("ws", { agents: { clerk: own } }), [
    "agents.clerk.workspace.dir: /work, which holds the configuration file",
  ]);
  const { config } = await loadText({
    providers,
    workspace: { dir: ".", securityMode: "full-control" },
  });
  assert.equal(config.workspace?.dir, "/work");
});
