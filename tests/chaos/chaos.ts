import assert from "node:assert/strict";
import { startHubProcess } from "../support/hub_process.ts";
import { openTestDatabase } from "../support/postgres.ts";
import { type PostgresServer, withPostgresServer } from "../support/postgres_server.ts";
import { eventually } from "../support/test_hub.ts";
import { followOne, type Witness } from "./client.ts";
import { startChaosModel } from "./model.ts";
import { Moments } from "./moments.ts";
import { judgeEffects, judgeRun, judgeUsage } from "./verdict.ts";

/** How much of it. */
export interface ChaosOptions {
  kills: number;
  replicas: number;
  /** Runs that go on at any time. */
  runs: number;
  /** Rounds of tool calls of each run. */
  steps: number;
  /** Every so many blows it is Postgres' turn. */
  postgresTurn?: number;
  /** A number in [0, 1). */
  random: () => number;
  say?: (line: string) => void;
}

/** What happened. */
export interface ChaosReport {
  kills: number;
  pauses: number;
  pgRestarts: number;
  runs: number;
  reconnects: number;
  /** The longest silence that a client has met. */
  longestGapMs: number;
  /** Owners that runs have had, all together. */
  owners: number;
  effects: number;
  unknown: number;
  modelCalls: number;
  /** Usage rows of calls whose end no replica saw. */
  orphaned: number;
}

const LEASE_MS = 1000;
type Replica = Awaited<ReturnType<typeof startHubProcess>>;

/**
 * Runs agents on several replicas over one Postgres, kills a replica again and again (or freezes it beyond its lease,
 * or restarts Postgres), and holds what is left against the log. Throws at the first thing that is not as it must be.
 */
export async function runChaos(options: ChaosOptions): Promise<ChaosReport> {
  let report: ChaosReport | undefined;
  await withPostgresServer(async (postgres) => void (report = await chaosOn(postgres, options)));
  return report ?? assert.fail("no report");
}

async function chaosOn(postgres: PostgresServer, options: ChaosOptions): Promise<ChaosReport> {
  const { random, say = () => {}, postgresTurn = 10 } = options;
  const moments = new Moments();
  const model = startChaosModel(options.steps, moments);
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-chaos-" });
  const effects = `${folder}/effects.txt`;
  await Deno.writeTextFile(effects, "");
  await Deno.writeTextFile(
    `${folder}/loophub.json`,
    JSON.stringify({
      providers: { chaos: { baseUrl: model.url } },
      defaultModel: "chaos/m",
      log: { level: "error" },
      operations: { modules: [new URL("effects.ts", import.meta.url).pathname] },
      agents: { default: { tools: ["chaos.*"], maxSteps: options.steps + 5 } },
      runs: { leaseMs: LEASE_MS },
    }),
  );
  const env = { DATABASE_URL: postgres.url, CHAOS_EFFECTS: effects, CHAOS_GATE: model.gate };
  const replicas: (Replica | null)[] = [];
  const crashes: string[] = [];
  const startReplica = async (at: number) => {
    const replica = await startHubProcess(folder, env);
    replicas[at] = replica;
    void replica.ended().then((code) => {
      if (replicas[at] === replica) crashes.push(`exit ${code}: ${replica.err()}`);
    });
    return replica;
  };
  const db = openTestDatabase(postgres.url, { poolSize: 2, readPoolSize: 2 });
  try {
    const first = await startReplica(0);
    const key = await eventually(() => Promise.resolve(first.key()));
    while (replicas.length < options.replicas) await startReplica(replicas.length);
    const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
    const target = {
      key,
      url: () => pick(replicas.filter((one) => one !== null)).url,
    };

    let killing = true;
    const witnesses: Witness[] = [];
    const client = async () => {
      do witnesses.push(await followOne(target, "Go through all rounds")); while (killing);
    };
    const clients = Promise.all(Array.from({ length: options.runs }, client));
    clients.catch(() => {});

    let pauses = 0;
    let pgRestarts = 0;
    for (let kill = 0; kill < options.kills; kill++) {
      // One run is held in the middle of its work while others go on, so that what it has said was shown.
      const releases = [
        await moments.after(upTo(random, 300)),
        await moments.after(upTo(random, 30)),
      ];
      const release = () => releases.forEach((one) => one());
      const at = upTo(random, replicas.length) - 1;
      const victim = replicas[at] as Replica;
      if (kill % postgresTurn === Math.min(4, postgresTurn - 1)) {
        // Whoever was held goes on without Postgres, and finds it gone.
        await postgres.stop(pgRestarts++ % 2 === 0 ? "immediate" : "fast");
        release();
        await postgres.start();
      } else if (random() < 0.2) {
        pauses++;
        victim.signal("SIGSTOP");
        release();
        // It wakes up as the owner of runs that are another's by now.
        await eventually(async () => {
          const [row] = await db.within(db.read<{ held: number }[]>`select count(*)::int as held
            from hub.runs where status = 'running' and lease_owner like ${`${victim.pid}-%`}`);
          return row?.held === 0 || undefined;
        });
        victim.signal("SIGCONT");
      } else {
        replicas[at] = null;
        await victim.end("SIGKILL");
        release();
        await startReplica(at);
      }
      if (kill % 25 === 24) say(`${kill + 1} kills, ${witnesses.length} runs ended`);
    }
    killing = false;
    await clients;
    assert.deepEqual(crashes, []);
    let owners = 0;
    for (const witness of witnesses) owners += (await judgeRun(db, witness, target)).owners;
    const { done, unknown } = await judgeEffects(db, {
      runs: witnesses.map(({ runId }) => runId),
      effects: await Deno.readTextFile(effects),
    });
    const { orphaned } = await judgeUsage(db, model);
    return {
      kills: options.kills - pauses - pgRestarts,
      pauses,
      pgRestarts,
      runs: witnesses.length,
      reconnects: witnesses.reduce((sum, { reconnects }) => sum + reconnects, 0),
      longestGapMs: Math.round(Math.max(...witnesses.map(({ longestGapMs }) => longestGapMs))),
      owners,
      effects: done,
      unknown,
      modelCalls: model.calls(),
      orphaned,
    };
  } finally {
    for (const replica of replicas.splice(0)) await replica?.end("SIGKILL");
    await db.close();
    await model.stop();
    await Deno.remove(folder, { recursive: true });
  }
}

/** A whole number from 1 to `most`. */
const upTo = (random: () => number, most: number) => 1 + Math.floor(random() * most);
