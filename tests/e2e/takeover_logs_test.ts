import assert from "node:assert/strict";
import { type HubProcess, startHubProcess } from "../support/hub_process.ts";
import { startTestPostgres } from "../support/postgres.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually } from "../support/test_hub.ts";

/** One line of the log. */
interface Line {
  level: string;
  message: string;
}

const linesOf = (hub: HubProcess): Line[] =>
  hub.err().split("\n").filter((line) => line.startsWith("{") && line.endsWith("}"))
    .map((line) => JSON.parse(line) as Line);

/** What a replica says at `error`. */
const errorsOf = (hub: HubProcess) => linesOf(hub).filter(({ level }) => level === "error");

const STALLED = chatStream({ text: "One two three", endAfter: 3, end: "stall" });
const TOOL = chatStream({
  toolCalls: [{
    name: "shell_script",
    arguments: { script: "sleep 600", cwd: null, timeoutMs: null },
  }],
});

Deno.test("a run that is taken over is told at warn, and nothing of it at error", async (t) => {
  const upstream = await startScriptedUpstream();
  const postgres = await startTestPostgres();
  const folder = await Deno.realPath(
    await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-takeover-" }),
  );
  const dir = `${folder}/workspace`;
  await Deno.mkdir(dir);
  await Deno.writeTextFile(
    `${folder}/loophub.json`,
    JSON.stringify({
      server: { shutdownDelayMs: 0, shutdownGraceMs: 0 },
      providers: { one: { baseUrl: upstream.url, maxRetries: 0 } },
      defaultModel: "one/m",
      log: { level: "info", format: "json" },
      workspace: { dir, securityMode: "full-control", shell: { script: true }, approval: "never" },
      agents: { default: { tools: ["shell.script"] } },
      runs: { leaseMs: 6000 },
    }),
  );
  const start = () => startHubProcess(folder, { DATABASE_URL: postgres.url });
  const hubs: HubProcess[] = [];
  try {
    const stays = await start();
    hubs.push(stays);
    const key = stays.key();
    const post = (hub: HubProcess, path: string, body: unknown) =>
      fetch(hub.url + path, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify(body),
      });
    /** Begins a run that is in the middle of an answer, and one in the middle of a tool's call. */
    const beginBoth = async (hub: HubProcess): Promise<string[]> => {
      upstream.script([STALLED, TOOL]);
      const runs: string[] = [];
      for (let number = 1; number <= 2; number++) {
        const { id } = await (await post(hub, "/v1/sessions", {})).json();
        const asked = upstream.requests.length;
        const said = await post(hub, `/v1/sessions/${id}/messages`, { text: "Go" });
        assert.equal(said.status, 200);
        runs.push(said.headers.get("x-loophub-run") ?? assert.fail());
        void said.body?.cancel().catch(() => {});
        await upstream.until(() => upstream.requests.length > asked);
      }
      upstream.script(chatStream({ text: "Done" }));
      return runs;
    };
    const end = async (hub: HubProcess, run: string) =>
      await eventually(async () => {
        const answer = await fetch(`${hub.url}/v1/runs/${run}`, {
          headers: { authorization: `Bearer ${key}` },
        });
        const { status } = await answer.json();
        return status === "running" ? null : status;
      });
    const ways: [string, (hub: HubProcess) => Promise<() => Promise<void>>][] = [
      ["a replica that is killed", async (hub) => {
        await hub.end("SIGKILL");
        return async () => {};
      }],
      ["a replica that is frozen, and goes on", (hub) => {
        hub.signal("SIGSTOP");
        return Promise.resolve(async () => {
          hub.signal("SIGCONT");
          const lost = () => hub.logged("A run ended without its last event").length;
          await eventually(() => lost() === 2 ? true : null);
          await hub.end("SIGTERM");
        });
      }],
      ["a replica that is stopped", async (hub) => {
        await hub.end("SIGTERM");
        return async () => {};
      }],
    ];
    for (const [name, leave] of ways) {
      await t.step(name, async () => {
        const goes = await start();
        hubs.push(goes);
        const runs = await beginBoth(goes);
        const before = linesOf(stays).length;
        const goOn = await leave(goes);
        for (const run of runs) assert.equal(await end(stays, run), "completed");
        await goOn();
        const told = linesOf(stays).slice(before).filter(({ message }) =>
          message === "Took a run over"
        );
        assert.ok(told.length > 0 && told.every(({ level }) => level === "warn"));
        assert.deepEqual([...errorsOf(stays), ...errorsOf(goes)], []);
      });
    }
  } finally {
    for (const hub of hubs) await hub.end("SIGKILL").catch(() => {});
    await upstream.stop();
    await postgres.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
