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
    "/project/ws",
    "limited-control",
  ]);
  const { free, none } = config.agents;
  assert.equal(none?.workspace, false);
  assert.ok(typeof free?.workspace === "object" && free.workspace.dir === "/srv");
});

Deno.test("a limited workspace holds nothing that would let an agent out of it", async () => {
  const dirOf = async (dir: string, more: Record<string, unknown> = {}) =>
    (await refusal(loadText({ providers, workspace: { dir }, ...more }, {
      files: { "/project/ws/ops.ts": "" },
    }))).problems.map(({ path, got }) => `${path}: ${got}`);
  assert.deepEqual(await dirOf("."), [
    "workspace.dir: /project, which holds the configuration file",
  ]);
  assert.deepEqual(await dirOf("/"), ["workspace.dir: /, which holds the configuration file"]);
  assert.deepEqual(await dirOf("ws", { database: { dataDir: "ws/data" } }), [
    "workspace.dir: /project/ws, which holds the hub's data",
  ]);
  assert.deepEqual(await dirOf("ws", { operations: { modules: ["ws/ops.ts"] } }), [
    "workspace.dir: /project/ws, which holds a module with operations",
  ]);
  const own = { workspace: { dir: "." } };
  assert.deepEqual(await dirOf("ws", { agents: { clerk: own } }), [
    "agents.clerk.workspace.dir: /project, which holds the configuration file",
  ]);
  const { config } = await loadText({
    providers,
    workspace: { dir: ".", securityMode: "full-control" },
  });
  assert.equal(config.workspace?.dir, "/project");
});

Deno.test("commands of a limited workspace are named, and read nothing of the hub's own", async () => {
  const got = async (shell: Record<string, unknown>, more: Record<string, unknown> = {}) =>
    (await refusal(loadText({ providers, workspace: { dir: "ws", shell, ...more } }))).problems
      .map(({ path, got }) => `${path}: ${got}`);
  assert.deepEqual(await got({}), ["workspace.shell.allow: no commands"]);
  assert.deepEqual(await got({ allow: ["git"], readOnly: ["/opt", "."] }), [
    "workspace.shell.readOnly[1]: /project, which holds the configuration file",
  ]);
  const { config, secrets } = await loadText({
    providers,
    workspace: { dir: "ws", shell: { allow: ["git status"], env: { TOKEN: "${GIT_TOKEN}" } } },
    agents: {
      free: { workspace: { dir: "/srv", securityMode: "full-control", shell: {} } },
      script: { workspace: { dir: "ws", shell: { script: true, readOnly: ["../tools"] } } },
    },
  }, { env: { GIT_TOKEN: "git-canary" } });
  assert.equal(config.workspace?.shell?.timeoutMs, 30_000);
  assert.ok(secrets.includes("git-canary"));
  const { script } = config.agents;
  assert.ok(typeof script?.workspace === "object");
  assert.deepEqual(script.workspace.shell?.readOnly, ["/tools"]);
});
