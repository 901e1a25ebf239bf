import assert from "node:assert/strict";
import { command, type HubProcess, startHubProcess } from "../support/hub_process.ts";
import { chatFrames, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually } from "../support/test_hub.ts";

/** True when nothing takes connections at this address. */
async function isClosed(url: string): Promise<true | undefined> {
  try {
    const { hostname, port } = new URL(url);
    (await Deno.connect({ hostname, port: Number(port) })).close();
    return undefined;
  } catch {
    return true;
  }
}

/** Asks over a connection of its own. */
function ask(hub: HubProcess, path: string, init: RequestInit = {}): Promise<Response> {
  return fetch(hub.url + path, {
    ...init,
    headers: { connection: "close", "content-type": "application/json", ...init.headers },
  });
}

/** The number of the worker that answers. */
async function whoAnswers(hub: HubProcess): Promise<string> {
  const text = await (await ask(hub, "/metrics")).text();
  return /worker="(\d+)"/.exec(text)?.[1] ?? assert.fail("no worker's number in /metrics");
}

/** Asks until these workers have answered. */
async function seeAll(hub: HubProcess, wanted: string[]): Promise<void> {
  const seen = new Set<string>();
  await eventually(async () => {
    seen.add(await whoAnswers(hub));
    return wanted.every((number) => seen.has(number)) ? true : undefined;
  });
}

/** Process ids of a worker, oldest first. */
const pidsOf = (hub: HubProcess, worker: number): number[] =>
  hub.logged("A worker listens").filter((line) => line.worker === worker)
    .map((line) => line.pid);

Deno.test("several processes serve one port", async (t) => {
  const upstream = await startScriptedUpstream();
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-workers-" });
  await Deno.chmod(folder, 0o755);
  const config = {
    server: { shutdownDelayMs: 0, shutdownGraceMs: 60_000 },
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
  };
  await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
  let key = "";
  const bearer = () => ({ authorization: `Bearer ${key}` });
  const models = async (hub: HubProcess) => {
    const answer = await ask(hub, "/v1/models", { headers: bearer() });
    await answer.body?.cancel();
    return answer.status;
  };
  try {
    let hub = await startHubProcess(folder, {}, ["--replicas", "2"]);
    try {
      await t.step("both answer with the one key, banner and key come once", async () => {
        key = await eventually(() => hub.key() ?? undefined);
        await seeAll(hub, ["1", "2"]);
        for (let asked = 0; asked < 10; asked++) assert.equal(await models(hub), 200);
        assert.equal(hub.out().match(/listens on/g)?.length, 1);
        assert.equal(hub.out().match(/export OPENAI_BASE_URL/g)?.length, 1);
        await eventually(() => {
          const workers = new Set(hub.logged("request").map((line) => line.worker));
          return workers.has(1) && workers.has(2) || undefined;
        });
        const migrated = hub.logged("Database is up to date");
        assert.deepEqual(migrated.map((line) => "worker" in line), [false]);
      });

      await t.step("a second hub on the port is refused", async () => {
        const { port } = new URL(hub.url);
        const options = { LOOPHUB_PORT: port, LOOPHUB_DATA_DIR: `${folder}/other` };
        const second = await command(folder, ["serve", "--workers", "2"], options);
        assert.equal(second.code, 3, second.err);
        assert.match(second.err, /another program uses it/);
      });

      await t.step("kill -9 of one worker: the other serves, and it comes back", async () => {
        const pid = await eventually(() => pidsOf(hub, 1)[0]);
        Deno.kill(pid, "SIGKILL");
        const ended = "A worker ended and is started again";
        await eventually(() => hub.logged(ended).length > 0 ? true : undefined);
        assert.deepEqual(hub.logged(ended).map((line) => [line.worker, line.pid, line.code]), [
          [1, pid, 137],
        ]);
        while (pidsOf(hub, 1).length < 2) assert.equal(await models(hub), 200);
        await seeAll(hub, ["1", "2"]);
      });

      await t.step("kill -9 of the parent leaves nothing", async () => {
        await hub.end("SIGKILL");
        await eventually(() => isClosed(hub.url));
        await eventually(() => isClosed(hub.psql));
      });

      await t.step("SIGTERM: all ports close, and streams of each worker end whole", async () => {
        hub = await startHubProcess(folder, {}, ["--replicas", "2"]);
        assert.equal(hub.key(), null);
        await seeAll(hub, ["1", "2"]);
        const gate = Promise.withResolvers<void>();
        const [role = "", first = "", ...rest] = chatFrames({ text: "One two three" });
        upstream.script(() => ({
          headers: { "content-type": "text/event-stream" },
          frames: [role, first, { wait: gate.promise }, ...rest],
        }));
        const body = JSON.stringify({
          model: "one/m",
          stream: true,
          messages: [{ role: "user", content: "Hello" }],
        });
        const post = { method: "POST", body, headers: bearer() };
        const answers = await Promise.all(
          Array.from({ length: 24 }, () => ask(hub, "/v1/chat/completions", post)),
        );
        hub.signal("SIGTERM");
        await eventually(() => isClosed(hub.url));
        assert.equal(await isClosed(hub.psql), undefined);
        gate.resolve();
        for (const answer of answers) {
          assert.equal(await answer.text(), [role, first, ...rest].join(""));
        }
        assert.equal(await hub.ended(), 0);
        assert.equal(await isClosed(hub.psql), true);
        const served = hub.logged("request").filter((line) => line.route !== "/metrics");
        assert.deepEqual([...new Set(served.map((line) => line.worker))].toSorted(), [1, 2]);
      });

      await t.step("the number must be one", async () => {
        for (const number of ["0", "two", "-1", "1.5", "9999"]) {
          const { code, err } = await command(folder, ["start", `--replicas=${number}`]);
          assert.equal(code, 2, err);
        }
        const many = await command(folder, ["start", "--replicas", "64"]);
        assert.equal(many.code, 3);
        assert.match(many.err, /64 workers want 704 connections/);
      });
    } finally {
      await hub.end("SIGKILL").catch(() => {});
    }
  } finally {
    await upstream.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
