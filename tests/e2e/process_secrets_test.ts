import assert from "node:assert/strict";
import { bubblewrap } from "../operations/files/rig.ts";
import { startHubProcess } from "../support/hub_process.ts";
import { connectMcp } from "../support/mcp_clients.ts";
import { startTestPostgres } from "../support/postgres.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually } from "../support/test_hub.ts";

const SPY = new URL("../fixtures/mcp-servers/spy.mjs", import.meta.url).pathname;
const PROVIDER_KEY = "canary-provider-key-1f0a77";
const MASTER_KEY = "c0ffee".repeat(10) + "beef";
const OTHER = "canary-other-server-55aa01";

/** Ways by which a program that runs as root would look past its own `/proc`. */
const ESCAPES = [
  "umount -l /proc; cat /proc/*/environ",
  "unshare -rm sh -c 'umount -l /proc; cat /proc/*/environ'",
  "nsenter -t 1 -a cat /proc/self/environ; cat /proc/1/root/proc/*/environ",
  "mkdir -p /tmp/p; mount -t proc proc /tmp/p; cat /tmp/p/*/environ",
  "ps axeww",
];

interface Looked {
  pids: number;
  found: { where: string; needle: number }[];
}

const spy = (sandbox: "auto" | "off") => ({
  command: Deno.execPath(),
  args: ["run", "-A", "--no-config", "--no-lock", SPY],
  env: { NO_COLOR: "1", DENO_NO_UPDATE_CHECK: "1" },
  sandbox,
  timeoutMs: 120_000,
});
/** In two pieces, so that no message of the test holds it whole. */
const inPieces = (text: string) => [text.slice(0, 7), text.slice(7)];

/** A hub as a process, its secrets in its environment, with a spy and a neighbour of it as MCP servers. */
async function withHub(
  sandbox: "auto" | "off",
  args: string[],
  body: (
    hub: Awaited<ReturnType<typeof startHubProcess>>,
    upstream: Awaited<ReturnType<typeof startScriptedUpstream>>,
    secrets: string[],
  ) => Promise<void>,
): Promise<void> {
  const folder = await Deno.realPath(
    await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-spy-" }),
  );
  await Deno.chmod(folder, 0o755);
  await Deno.mkdir(`${folder}/ws`);
  const upstream = await startScriptedUpstream();
  const postgres = await startTestPostgres({ migrated: false });
  const config = {
    providers: { up: { baseUrl: upstream.url, apiKey: "${UP_KEY}" } },
    defaultModel: "up/m",
    workspace: {
      dir: "ws",
      securityMode: "full-control",
      shell: { script: true },
      approval: "never",
    },
    agents: { worker: { tools: ["shell.*"], approvals: { tainted: "allow" } } },
    mcpServers: {
      spy: spy(sandbox),
      other: { ...spy("auto"), env: { NO_COLOR: "1", OTHER_TOKEN: "${OTHER}" } },
    },
  };
  await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
  const url = new URL(postgres.url);
  const secrets = [PROVIDER_KEY, MASTER_KEY, OTHER, url.password].filter((text) => text !== "");
  try {
    const hub = await startHubProcess(folder, {
      UP_KEY: PROVIDER_KEY,
      LOOPHUB_MASTER_KEY: MASTER_KEY,
      OTHER,
      DATABASE_URL: postgres.url,
    }, args);
    try {
      await body(hub, upstream, secrets);
    } finally {
      await hub.end("SIGTERM");
    }
  } finally {
    await postgres.stop();
    await upstream.stop();
    await Deno.remove(folder, { recursive: true });
  }
}

async function look(url: string, key: string, input: Record<string, unknown>): Promise<Looked> {
  const client = await connectMcp("v2 legacy", { url, key });
  try {
    await eventually(async () => {
      const tools = await client.tools();
      return tools.some(({ name }) => name === "spy__look") ? true : null;
    });
    const result = await client.call("spy__look", input);
    const [first] = result.content as { text: string }[];
    return JSON.parse(first?.text ?? "") as Looked;
  } finally {
    await client.close();
  }
}

for (const args of [[], ["--replicas", "2"]]) {
  Deno.test({
    name: `an MCP program reads no secret of the hub's processes (${args.join(" ") || "one"})`,
    ignore: !bubblewrap.works,
    fn: () =>
      withHub("auto", args, async (hub, _, secrets) => {
        const key = await eventually(() => hub.key());
        const needles = [...secrets, key].map(inPieces);
        const { pids, found } = await look(hub.url, key, { needles, escape: ESCAPES, mem: true });
        assert.deepEqual(found, []);
        assert.ok(pids < 10, `${pids} processes are visible`);
      }),
  });
}

Deno.test({
  name: "a full-control command reads no secret of the hub's processes",
  ignore: !bubblewrap.works,
  fn: () =>
    withHub("auto", [], async (hub, upstream, secrets) => {
      const key = await eventually(() => hub.key());
      const script = `cat /proc/*/environ /proc/*/cmdline; ${ESCAPES.join("; ")}`;
      const results: string[] = [];
      upstream.script((request) => {
        const { messages } = request.json as unknown as {
          messages: { role: string; content: string }[];
        };
        const last = messages.at(-1);
        if (last?.role !== "tool") {
          return chatStream({
            toolCalls: [{
              name: "shell_script",
              arguments: { script, cwd: null, timeoutMs: null },
            }],
          });
        }
        results.push(last.content);
        return chatStream({ text: "Done" });
      });
      const session = await (await hub.post("/v1/sessions", {})).json();
      const answer = await hub.post(`/v1/sessions/${session.id}/messages`, {
        text: "Go",
        stream: false,
        agent: "worker",
      });
      await answer.text();
      assert.equal(results.length, 1);
      assert.match(results[0] ?? "", /exit code/);
      for (const secret of [...secrets, key]) {
        assert.ok(!(results[0] ?? "").includes(secret), secret);
      }
    }),
});

Deno.test("a spy whose sandbox is off finds what the others do not", async () => {
  await withHub("off", [], async (hub, _, secrets) => {
    const key = await eventually(() => hub.key());
    const { found } = await look(hub.url, key, { needles: secrets.map(inPieces) });
    const isFound = (secret: string) =>
      found.some(({ where, needle }) => where === "environ" && secrets[needle] === secret);
    assert.ok(isFound(PROVIDER_KEY) && isFound(MASTER_KEY), JSON.stringify(found));
  });
});
