// The public conformance suite of MCP against the hub's own /mcp, both revisions. What wants a fixture's tools, prompts
// and resources is listed in the baselines as expected to fail, and the suite fails on an entry that no longer does.
import { startKeyedProxy } from "../../support/keyed_proxy.ts";
import { chatStream, startScriptedUpstream } from "../../support/scripted_upstream.ts";
import { withHub } from "../../support/test_hub.ts";

const SUITE = "npm:@modelcontextprotocol/conformance@0.2.0-alpha.12";
const REVISIONS = ["2025-11-25", "2026-07-28"];
const here = new URL(".", import.meta.url).pathname;

async function run(url: string, revision: string, results: string): Promise<boolean> {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--no-prompt",
      `--config=${here}deno.json`,
      "--allow-net=127.0.0.1,localhost",
      "--allow-env",
      "--allow-read",
      `--allow-write=${results}`,
      "--allow-sys",
      SUITE,
      "server",
      "--url",
      url,
      "--requirements",
      revision,
      "--expected-failures",
      `${here}server-${revision}.yml`,
      "-o",
      results,
    ],
    env: { NO_COLOR: "1" },
  }).output();
  const text = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  console.log(`server ${revision}: ${success ? "ok" : "FAILED"}`);
  if (!success) console.log(text.slice(text.indexOf("=== SUMMARY")));
  return success;
}

const upstream = await startScriptedUpstream(() => chatStream({ text: "Hi" }));
const results = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-conformance-" });
const passed: boolean[] = [];
const config = {
  providers: { up: { baseUrl: upstream.url, apiKey: "sk-up" } },
  defaultModel: "up/m",
};
await withHub(config, async (hub) => {
  const proxy = await startKeyedProxy(hub.url, hub.key);
  for (const revision of REVISIONS) passed.push(await run(`${proxy.url}/mcp`, revision, results));
  await proxy.stop();
});
await upstream.stop();
await Deno.remove(results, { recursive: true });
Deno.exit(passed.every(Boolean) ? 0 : 1);
