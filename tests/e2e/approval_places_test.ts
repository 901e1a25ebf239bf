import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { scripted } from "../mcp/rig.ts";
import { startHttpMcpServer } from "../mcp/http_server.ts";
import { answer, approvalsOf, start, untilWaiting } from "../support/approvals_rig.ts";
import { logOf } from "../support/log_of.ts";
import { startTestPostgres } from "../support/postgres.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, startTestHub, type TestHub } from "../support/test_hub.ts";

/** A tool whose words stay the same while its place changes. */
interface Case {
  name: string;
  /** The model's name for it, and the hub's. */
  tool: [wire: string, full: string];
  input: JsonObject;
  /** The configuration before and behind the change. */
  before: JsonObject;
  behind: JsonObject;
}

/** What the model reads of its last call, and whether a person was asked. */
async function outcomeOf(stream: Promise<string>): Promise<{ said: string; isAsked: boolean }> {
  const events = logOf(await stream).map(({ event }) => event);
  const ended = events.flatMap((event) =>
    event.type === "tool-output-available"
      ? [JSON.stringify(event.output)]
      : event.type === "tool-output-denied" || event.type === "tool-output-error"
      ? [event.errorText]
      : []
  );
  const isAsked = events.some(({ type }) => type === "tool-approval-request");
  return { said: ended.at(-1) ?? "", isAsked };
}

Deno.test("what a person approved holds for the place that it was approved for: workspace, program, address", async (t) => {
  const upstream = await startScriptedUpstream();
  const made = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-places-" });
  const base = await Deno.realPath(made);
  const [one, two] = [startHttpMcpServer(), startHttpMcpServer()];
  const listed = [{ name: "pay", description: "Pays", inputSchema: { type: "object" } }];
  one.tools = listed;
  two.tools = listed;
  for (const name of ["a", "b"]) await Deno.mkdir(`${base}/${name}`);
  const program = (said: string) =>
    scripted({ tools: listed, results: { pay: { content: [{ type: "text", text: said }] } } });
  const file: Pick<Case, "tool" | "input"> = {
    tool: ["file_write", "file.write"],
    input: { path: "made", content: "x", hash: null },
  };
  const mcp: Pick<Case, "tool" | "input"> = { tool: ["bank__pay", "bank__pay"], input: {} };
  const workspace = (dir: string, more: JsonObject = {}) => ({
    workspace: { dir: `${base}/${dir}`, sandbox: "off", ...more },
  });
  const shell: Pick<Case, "tool" | "input"> = {
    tool: ["shell_run", "shell.run"],
    input: { command: "sh", args: ["made.sh"], cwd: null, timeoutMs: null },
  };
  const cases: Case[] = [
    { name: "another folder", ...file, before: workspace("a"), behind: workspace("b") },
    {
      name: "a wider mode",
      ...file,
      before: workspace("a"),
      behind: workspace("a", { securityMode: "full-control" }),
    },
    {
      name: "other commands",
      ...shell,
      before: workspace("a", { shell: { allow: ["sh made.sh"] } }),
      behind: workspace("a", { shell: { allow: ["sh made.sh", "env"] } }),
    },
    {
      name: "another address of an MCP server",
      ...mcp,
      before: { mcpServers: { bank: { url: one.url } } },
      behind: { mcpServers: { bank: { url: two.url } } },
    },
    {
      name: "other arguments of an MCP server's program",
      ...mcp,
      before: { mcpServers: { bank: program("paid by one") } },
      behind: { mcpServers: { bank: program("paid by two") } },
    },
  ];
  const configOf = (place: JsonObject): JsonObject => ({
    providers: { one: { baseUrl: upstream.url, apiKey: "sk-upstream" } },
    defaultModel: "one/m",
    agents: {
      default: {
        tools: ["file.*", "shell.*", "bank__*"],
        approvals: { rules: [{ tier: "ask" }], tainted: "allow" },
      },
    },
    runs: { approvalTimeoutMs: 600_000 },
    ...place,
  });
  try {
    for (const { name, tool: [wire, full], input, before, behind } of cases) {
      await t.step(name, async () => {
        upstream.script(({ messages }) =>
          messages.at(-1)?.role === "tool"
            ? chatStream({ text: "Done" })
            : chatStream({ toolCalls: [{ name: wire, arguments: input }] })
        );
        await Deno.writeTextFile(`${base}/a/made.sh`, "echo made\n");
        const postgres = await startTestPostgres({ migrated: false });
        let key: string | undefined;
        const during = async <T>(place: JsonObject, body: (hub: TestHub) => Promise<T>) => {
          const hub = await startTestHub(configOf(place), {
            databaseUrl: postgres.url,
            dataDir: `${base}/data`,
            ...key === undefined ? {} : { key },
          });
          key = hub.key;
          try {
            await hub.hub.mcp.settled(30_000);
            return await body(hub);
          } finally {
            await hub.close();
          }
        };
        try {
          const runId = await during(before, async (hub) => {
            const granted = await start(hub);
            const [asked] = await untilWaiting(hub, granted.runId);
            assert.equal(asked.toolName, full);
            await answer(hub, granted.runId, asked.id, { approved: true, remember: "always" });
            const first = await outcomeOf(granted.stream);
            assert.doesNotMatch(first.said, /Not executed/);
            const again = await outcomeOf((await start(hub)).stream);
            assert.equal(again.isAsked, false, "the grant holds");
            assert.doesNotMatch(again.said, /Not executed/);
            // One more is asked about, and waits.
            const { data: grants } = await (await hub.call("/v1/approvals/grants")).json();
            const path = `/v1/approvals/grants/${grants[0].id}`;
            await hub.call(path, { method: "DELETE" });
            const waits = await start(hub);
            void waits.stream.catch(() => {});
            await untilWaiting(hub, waits.runId);
            // The grant is there again when the place changes.
            const other = await start(hub);
            const [also] = await untilWaiting(hub, other.runId);
            await answer(hub, other.runId, also.id, { approved: true, remember: "always" });
            await other.stream;
            return waits.runId;
          });
          await during(behind, async (hub) => {
            const approve = async () => {
              const { waiting } = await (await hub.call("/v1/admin/mcp/bank")).json();
              const hashes = (waiting ?? []).map(({ hash }: JsonObject) => hash);
              if (hashes.length === 0) return;
              await (await hub.call("/v1/admin/mcp/bank/approve", { body: { hashes } })).json();
            };
            if (full === "bank__pay") await approve();
            const [asked] = await approvalsOf(hub, runId);
            assert.equal(asked.state, "pending");
            await answer(hub, runId, asked.id, { approved: true });
            const stream = hub.call(`/v1/runs/${runId}/stream`).then((reply) => reply.text());
            const { said } = await outcomeOf(stream);
            assert.equal(said, `Not executed: ${full} is not what it was when it was approved`);
            const anew = await start(hub);
            void anew.stream.catch(() => {});
            await eventually(async () => {
              const { status } = await (await hub.call(`/v1/runs/${anew.runId}`)).json();
              return status === "waiting" ? true : null;
            });
          });
        } finally {
          await postgres.stop();
        }
      });
    }
    assert.deepEqual([...Deno.readDirSync(`${base}/b`)], []);
    assert.ok(!two.seen.some(({ rpc }) => rpc === "tools/call"), "the other server was not called");
  } finally {
    await upstream.stop();
    await one.stop();
    await two.stop();
    await Deno.remove(base, { recursive: true });
  }
});
