import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import { type Id, toUuid } from "../../src/core/id.ts";
import { type HubProcess, startHubProcess } from "../support/hub_process.ts";
import { openTestDatabase, startTestPostgres } from "../support/postgres.ts";
import { chatFrames, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually } from "../support/test_hub.ts";
import { followOne, type Seen } from "./client.ts";
import { judgeRun } from "./verdict.ts";

const REPLICAS = 2;
/** How often a run may be taken up again without a finished step. */
const RECOVERIES = 8;
/** More steps than there are kills. */
const ROUNDS = 14;
const MODULE = new URL("../fixtures/operations/kill_hub.ts", import.meta.url).pathname;

/** Something that is counted and waited for. */
class Count {
  value = 0;
  #waiting: { least: number; resolve: () => void }[] = [];

  raise(to: number): void {
    this.value = Math.max(this.value, to);
    for (const { least, resolve } of this.#waiting) if (least <= this.value) resolve();
  }

  reaches(least: number): Promise<void> {
    if (least <= this.value) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push({ least, resolve }));
  }
}

interface Asked {
  messages: { role: string; content?: unknown; tool_calls?: unknown[] }[];
}

const eventsOf = (seen: readonly Seen[]) =>
  seen.map(({ seq, data }) => ({ seq, event: JSON.parse(data) }));

Deno.test("a tool that kills its hub ends its own run after eight recoveries, and no other", async () => {
  const kills = new Count();
  const rounds = new Count();
  const postgres = await startTestPostgres();
  const gate = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async () => {
    // The other run finishes a step between any two kills.
    await rounds.reaches(kills.value + 1);
    kills.raise(kills.value + 1);
    return new Response();
  });
  const url = `http://127.0.0.1:${gate.addr.port}/`;
  const upstream = await startScriptedUpstream(({ json }) => {
    const { messages } = json as unknown as Asked;
    const isPoison = JSON.stringify(messages).includes("poison");
    const round = messages.filter(({ tool_calls }) => tool_calls !== undefined).length;
    if (!isPoison) rounds.raise(round);
    const call = isPoison
      ? { name: "test_kill", arguments: { url } }
      : { name: "hub_calculate", arguments: { expression: `${round}*7` } };
    const toolCalls = round < ROUNDS ? [call] : [];
    const frames = chatFrames({ text: `Round ${round}`, toolCalls });
    const pause = isPoison || round > RECOVERIES ? [] : [{ wait: kills.reaches(round) }];
    return {
      headers: { "content-type": "text/event-stream" },
      frames: [...pause, ...frames],
    };
  });
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-poison-" });
  await Deno.writeTextFile(
    `${folder}/loophub.json`,
    JSON.stringify({
      providers: { one: { baseUrl: upstream.url } },
      defaultModel: "one/m",
      operations: { modules: [MODULE] },
      agents: { default: { tools: ["test.kill", "hub.calculate"], maxSteps: ROUNDS + 5 } },
      runs: { leaseMs: 2000 },
      log: { level: "error" },
    }),
  );
  const db = openTestDatabase(postgres.url, { poolSize: 2, readPoolSize: 2 });
  const replicas: (HubProcess | null)[] = [];
  let over = false;
  /** A replica that is started again whenever it was killed. */
  const keepUp = async (at: number, first: PromiseWithResolvers<HubProcess>) => {
    while (!over) {
      const replica = await startHubProcess(folder, { DATABASE_URL: postgres.url });
      replicas[at] = replica;
      first.resolve(replica);
      await replica.ended();
      replicas[at] = null;
    }
  };
  const firsts = Array.from({ length: REPLICAS }, () => Promise.withResolvers<HubProcess>());
  const [one = assert.fail(), ...others] = firsts;
  const kept = [keepUp(0, one)];
  try {
    const started = await one.promise;
    const key = await eventually(() => started.key());
    others.forEach((first, at) => kept.push(keepUp(at + 1, first)));
    await Promise.all(others.map(({ promise }) => promise));
    let turn = 0;
    const target = {
      key,
      url: () => {
        const alive = replicas.filter((replica) => replica !== null);
        return alive[turn++ % alive.length]?.url ?? "http://127.0.0.1:1";
      },
    };
    const ending = followOne(target, "Take the poison");
    const goingOn = followOne(target, "Go through all rounds");
    const poison = await ending;
    const killed = kills.value;
    kills.raise(ROUNDS);
    const other = await goingOn;

    const log = eventsOf(poison.seen);
    assert.deepEqual(checkLog(log), []);
    const [error, finish] = log.slice(-2).map(({ event }) => event);
    assert.deepEqual([error.type, error.code], ["error", "interrupted"]);
    assert.deepEqual([finish.type, finish.finishReason], ["finish", "error"]);
    const [row] = await db.within(db.read<{ status: string; attempts: number; epoch: number }[]>`
      select status, attempts, lease_epoch::int as epoch from hub.runs
      where run_id = ${toUuid(poison.runId as Id)}`);
    assert.deepEqual([row?.status, row?.attempts], ["failed", RECOVERIES + 1]);
    // One whose lease ran out before its kill counts too.
    assert.ok(killed > RECOVERIES / 2, `${killed} kills`);
    const { owners } = await judgeRun(db, other, target);
    assert.ok(owners > 1, `${owners} owners`);
  } finally {
    over = true;
    for (const replica of replicas) await replica?.end("SIGKILL").catch(() => {});
    await Promise.allSettled(kept);
    await db.close();
    await upstream.stop();
    await gate.shutdown();
    await postgres.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
