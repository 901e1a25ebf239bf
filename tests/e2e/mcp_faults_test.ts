import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { type HttpMcpServer, startHttpMcpServer } from "../mcp/http_server.ts";
import { scripted } from "../mcp/rig.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, withHub } from "../support/test_hub.ts";

const tools = [{ name: "good", inputSchema: { type: "object" } }];
const MEGABYTE = 1024 * 1024;

/** A server with a fault, what its tool is called with, how it stands then, and what the run reads of it. */
interface Fault {
  settings(remote: HttpMcpServer, folder: string): JsonObject;
  input?(folder: string): JsonObject;
  state: RegExp;
  /** Left out where no tool is offered. */
  result?: RegExp;
  /** How journal and audit have the call; `succeeded` unless said. */
  outcome?: "unknown" | "failed";
}

const ended = (reason: string) =>
  new RegExp(`ended during the call \\(${reason}.*do not assume that the tool did its work`);
const http = ({ url }: HttpMcpServer) => ({ url: `${url}/mcp` });

const FAULTS: Record<string, Fault> = {
  good: { settings: () => scripted({ tools }), state: /^ready$/, result: /good ok/ },
  dies: {
    settings: () => scripted({ tools }),
    input: () => ({ die: true }),
    state: /^backoff: the program ended with code 1|^ready$/,
    result: ended("the program ended with code 1"),
    outcome: "unknown",
  },
  reads: {
    settings: () => scripted({ tools }, { effect: { "*": "pure" } }),
    input: (folder) => ({ dieOnce: `${folder}/died` }),
    state: /^ready$/,
    result: /good ok/,
  },
  long: {
    settings: () => scripted({ tools }),
    input: () => ({ huge: 100 * MEGABYTE }),
    state: /^backoff: the server sent a line of more than 16777216 bytes|^ready$/,
    result: ended("the server sent a line of more than 16777216 bytes"),
    outcome: "unknown",
  },
  refuses: {
    settings: () => scripted({ tools, results: { good: { isError: true, content: [] } } }),
    state: /^ready$/,
    result: /failed without a reason/,
    outcome: "failed",
  },
  reader: {
    settings: () => scripted({ tools }, { timeoutMs: 500, effect: { "*": "pure" } }),
    input: () => ({ silent: true }),
    state: /^ready$/,
    result: /said nothing for 500 ms/,
    outcome: "failed",
  },
  endless: {
    settings: () => scripted({ tools }, { timeoutMs: 20_000, totalTimeoutMs: 500 }),
    input: () => ({ silent: true }),
    state: /^ready$/,
    result: /did not end within 500 ms; do not assume/,
    outcome: "unknown",
  },
  cut: {
    settings: http,
    state: /^(ready|backoff: .*)$/,
    result: ended(""),
    outcome: "unknown",
  },
  silent: {
    settings: () => scripted({ tools }, { timeoutMs: 500 }),
    input: () => ({ silent: true }),
    state: /^ready$/,
    result: /said nothing for 500 ms; do not assume/,
    outcome: "unknown",
  },
  noisy: {
    settings: () => scripted({ tools, modes: ["junk", "noisy"] }),
    state: /^ready$/,
    result: /good ok/,
  },
  stubborn: {
    settings: () => scripted({ tools, modes: ["stubborn"] }),
    state: /^ready$/,
    result: /good ok/,
  },
  stale: { settings: http, state: /^ready$/, result: /called/ },
  mute: {
    settings: () => scripted({ modes: ["mute"] }, { connectTimeoutMs: 1000 }),
    state: /^(backoff: it did not answer within 1000 ms|connecting)$/,
  },
  unlicensed: {
    settings: () => scripted({ modes: ["dies-at-once"] }),
    state: /^(backoff: the program ended with code 3: no licence found|connecting)$/,
  },
  missing: {
    settings: () => ({ command: "no-such-program-here" }),
    state: /^(backoff: the program could not be started: .*not found|connecting)/,
  },
  denied: { settings: http, state: /^needs_auth: .*authoriz/ },
  gone: { settings: http, state: /^failed: .*404/ },
  broken: { settings: http, state: /^(backoff: .*500|connecting)/ },
};
const REFUSALS: Record<string, number> = { denied: 401, gone: 404, broken: 500 };

Deno.test("each fault of a server has its state and its message, and the other servers' tools go on", async () => {
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-mcp-" });
  const upstream = await startScriptedUpstream();
  const remotes = new Map<string, HttpMcpServer>();
  const mcpServers: JsonObject = {};
  for (const [name, { settings }] of Object.entries(FAULTS)) {
    const remote = startHttpMcpServer();
    remote.refuse(REFUSALS[name] ?? null);
    remotes.set(name, remote);
    mcpServers[name] = settings(remote, folder);
  }
  const callable = Object.entries(FAULTS).filter(([, { result }]) => result !== undefined);
  const calls = callable.map(([name, { input }]) => ({
    name: `${name}__good`,
    arguments: input?.(folder) ?? {},
  }));
  try {
    await withHub({
      providers: { one: { baseUrl: upstream.url, apiKey: "sk-upstream" } },
      defaultModel: "one/m",
      agents: { default: { tools: ["*__*"] } },
      mcpServers,
    }, async (hub) => {
      await hub.hub.mcp.settled(60_000);
      const shown = async () => {
        const { data } = await (await hub.call("/v1/admin/mcp")).json();
        return new Map<string, { state: string; stderr: string; tools: unknown[] }>(
          data.map((one: { name: string; state: string; reason: string | null }) => [
            one.name,
            { ...one, state: one.reason === null ? one.state : `${one.state}: ${one.reason}` },
          ]),
        );
      };
      remotes.get("stale")?.forget(404);
      const cut = remotes.get("cut");
      if (cut !== undefined) cut.cutNext = true;
      upstream.script((_, index) =>
        chatStream(index > 0 ? { text: "Done." } : { toolCalls: calls })
      );
      const { external, heapUsed } = Deno.memoryUsage();
      let most = 0;
      const watch = setInterval(() => {
        const now = Deno.memoryUsage();
        most = Math.max(most, now.external + now.heapUsed - external - heapUsed);
      }, 10);
      const session = await (await hub.call("/v1/sessions", { body: {} })).json();
      const answer = await hub.call(`/v1/sessions/${session.id}/messages`, {
        body: { text: "Call all" },
      });
      const text = await answer.text();
      clearInterval(watch);
      assert.ok(most < 120 * MEGABYTE, `${Math.round(most / MEGABYTE)} MB more`);
      const { messages } = upstream.requests.at(-1)?.json as {
        messages: { role: string; content: unknown; tool_call_id?: string }[];
      };
      const results = messages.filter(({ role }) => role === "tool");
      assert.equal(results.length, callable.length, text);
      for (const [at, [name, { result }]] of callable.entries()) {
        assert.match(JSON.stringify(results[at]?.content), result ?? /never/, name);
      }
      const wanted = callable.map((
        [name, { outcome = "succeeded" }],
      ) => [`${name}__good`, outcome]);
      const { db } = hub.hub.start;
      const journal = await db.read`select tool_name, state from hub.tool_calls order by idx`;
      assert.deepEqual(journal.map((row) => [row["tool_name"], row["state"]]), wanted);
      const audited = await eventually(async () => {
        const rows = await db.read`select server, outcome from hub.mcp_activity`;
        return rows.length === wanted.length ? rows : null;
      });
      assert.deepEqual(
        audited.map((row) => [`${row["server"]}__good`, row["outcome"]]).sort(),
        wanted.toSorted(),
      );
      for (const [name, { state, result }] of Object.entries(FAULTS)) {
        let stands = "";
        await eventually(async () => {
          stands = (await shown()).get(name)?.state ?? "";
          return state.test(stands) || null;
        }, 10_000).catch(() => assert.match(stands, state, `${name}: ${stands}`));
        const { tools = [], stderr = "" } = (await shown()).get(name) ?? {};
        assert.equal(tools.length, result === undefined ? 0 : 1, name);
        assert.ok(stderr.length <= 4096);
      }
    });
  } finally {
    for (const remote of remotes.values()) await remote.stop();
    await upstream.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
