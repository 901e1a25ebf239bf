// The public conformance suite of MCP, both revisions: as a client of the hub's own /mcp, and as servers of the hub's own
// client. What is expected to fail stands in the baselines, and the suite fails on an entry that no longer does.
import { startKeyedProxy } from "../../support/keyed_proxy.ts";
import { startServer } from "../../support/postgres.ts";
import { chatStream, startScriptedUpstream } from "../../support/scripted_upstream.ts";
import { withHub } from "../../support/test_hub.ts";
import { startClients } from "./clients.ts";
import { REVISIONS, runSuite } from "./suite.ts";

const here = new URL(".", import.meta.url).pathname;
const passed: boolean[] = [];

async function holdServer(): Promise<void> {
  const upstream = await startScriptedUpstream(() => chatStream({ text: "Hi" }));
  const config = {
    providers: { up: { baseUrl: upstream.url, apiKey: "sk-up" } },
    defaultModel: "up/m",
  };
  await withHub(config, async (hub) => {
    const proxy = await startKeyedProxy(hub.url, hub.key);
    for (const revision of REVISIONS) {
      passed.push(await runSuite("server", revision, ["--url", `${proxy.url}/mcp`]));
    }
    await proxy.stop();
  });
  await upstream.stop();
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
