// The public conformance suite of MCP, both revisions: as a client of the hub's own /mcp, and as servers of the hub's own
// client. What is expected to fail stands in the baselines, and the suite fails on an entry that no longer does.
import { startModernServer } from "./fixture/modern_server.ts";
import { startKeyedProxy } from "../../support/keyed_proxy.ts";
import { startServer } from "../../support/postgres.ts";
import { chatStream, startScriptedUpstream } from "../../support/scripted_upstream.ts";
import { startHubProcess } from "../../support/hub_process.ts";
import { eventually } from "../../support/test_hub.ts";
import { startClients } from "./clients.ts";
import { REVISIONS, runSuite } from "./suite.ts";

const here = new URL(".", import.meta.url).pathname;
const root = new URL("../../../", import.meta.url).pathname;
const passed: boolean[] = [];

/** The suite, the hub without a prefix, and a server of the revision behind it. */
async function holdServer(): Promise<void> {
  const upstream = await startScriptedUpstream(() => chatStream({ text: "Hi" }));
  const modern = startModernServer();
  const legacy = {
    command: Deno.execPath(),
    args: ["run", "--no-prompt", `--config=${root}deno.json`, "-A"]
      .concat(`${here}fixture/legacy_server.ts`),
    env: { DENO_DIR: "${DENO_DIR}" },
    protocol: "legacy",
  };
  const behind = [legacy, { url: modern.url, protocol: "2026-07-28" }];
  for (const [at, revision] of REVISIONS.entries()) {
    const fixture = { ...behind[at], prefix: false, trust: true };
    const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-conformance-" });
    const config = {
      providers: { up: { baseUrl: upstream.url, apiKey: "sk-up" } },
      defaultModel: "up/m",
      mcpServers: { fixture },
    };
    await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
    const hub = await startHubProcess(folder);
    const key = hub.key();
    if (key === null) throw new Error("The hub made no key");
    await listed(hub.url, key);
    const proxy = await startKeyedProxy(hub.url, key);
    passed.push(await runSuite("server", revision, ["--url", `${proxy.url}/mcp`]));
    await proxy.stop();
    await hub.end("SIGTERM");
    await Deno.remove(folder, { recursive: true });
  }
  await modern.stop();
  await upstream.stop();
}

/** Waits until the hub knows what the server behind it has. */
async function listed(url: string, key: string): Promise<void> {
  await eventually(async () => {
    const answer = await fetch(`${url}/v1/mcp/fixture/prompts`, {
      headers: { authorization: `Bearer ${key}` },
    });
    const { data } = await answer.json();
    return data?.length > 0 || null;
  });
}

async function holdClient(): Promise<void> {
  const clients = await startClients();
  const command = `sh ${here}client_command.sh ${clients.url}`;
  for (const revision of REVISIONS) {
    const target = ["--command", command, "--timeout", "120000"];
    passed.push(await runSuite("client", revision, target));
  }
  await clients.stop();
}

const parts = new Map([["server", holdServer], ["client", holdClient]]);
const named = Deno.args.length === 0 ? [...parts.keys()] : Deno.args;
const postgres = await startServer();
Deno.env.set("LOOPHUB_TEST_DATABASE_URL", postgres.url);
for (const name of named) await parts.get(name)?.();
await postgres.stop();
Deno.exit(passed.every(Boolean) ? 0 : 1);
