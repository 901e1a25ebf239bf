import postgres from "postgres";
import { measureAgents } from "./agents.ts";
import { follow, headersOf, type Heard, startRun } from "./follow.ts";
import { residentBytes } from "./memory.ts";
import { type HubSettings, type StartedHub, startHub } from "./targets.ts";

interface Options {
  folder: string;
  upstream: number;
  rounds: number;
}

const MEGABYTE = 1024 * 1024;
const READERS = 28;
/** They are sent when they are written, and not before. */
const TRANSITIONS = ["tool-input-available", "tool-output-available", "step-finish", "finish"];

/** Two replicas over the Postgres of a third hub, which does nothing else. Gives a line a figure. */
export async function measureReplicas(options: Options): Promise<string[]> {
  const base = await startHub(await folderOf(options, "base"), options.upstream);
  try {
    const start = async (name: string, more: HubSettings = {}) =>
      await startHub(await folderOf(options, name), options.upstream, {
        databaseUrl: base.psql,
        server: { shutdownDelayMs: 0 },
        ...more,
      });
    return [
      await measureLatency("another replica hears of a commit", start, {}),
      await measureLatency("without NOTIFY", start, { database: { notify: false } }),
      ...await measureRecovery(start, options.rounds),
      await measureReconnects(start),
      await measureStuckReaders(start),
      ...await measureRows(start, base),
    ];
  } finally {
    await base.stop();
  }
}

type Start = (name: string, more?: HubSettings) => Promise<StartedHub>;

async function withTwo<T>(
  start: Start,
  more: HubSettings,
  body: (a: StartedHub, b: StartedHub) => Promise<T>,
): Promise<T> {
  const a = await start("a", more);
  const b = await start("b", more);
  try {
    return await body(a, b);
  } finally {
    await a.stop();
    await b.stop();
  }
}

/** From what the replica that drives a run shows, which is when it is written, to what the other one shows. */
async function measureLatency(what: string, start: Start, more: HubSettings): Promise<string> {
  return await withTwo(start, more, async (a, b) => {
    const late: number[] = [];
    const one = async () => {
      const { runId, heard } = await startRun(a, "slow");
      const there = await follow(b, runId);
      const openMs = performance.now();
      const [own, other] = await Promise.all([collect(heard), collect(there)]);
      const atB = new Map(other.map((event) => [event.seq, event.atMs]));
      for (const { seq, type, atMs } of own) {
        const seenMs = atB.get(seq);
        if (seenMs === undefined || atMs < openMs || !TRANSITIONS.includes(type)) continue;
        late.push(Math.max(0, seenMs - atMs));
      }
    };
    for (let round = 0; round < 20; round++) await Promise.all(Array.from({ length: 8 }, one));
    return `${what}: p50 ${quantile(late, 0.5)} ms, p99 ${
      quantile(late, 0.99)
    } ms (${late.length})`;
  });
}

/** From the signal to the first event that the next owner writes, as a follower at the other replica sees it. */
async function measureRecovery(start: Start, rounds: number): Promise<string[]> {
  const b = await start("b");
  const killed: number[] = [];
  const ended: number[] = [];
  try {
    for (const [times, agent, list] of [[3, "long", killed], [rounds, "silent", ended]] as const) {
      for (let round = 0; round < times; round++) {
        const a = await start("a");
        const { runId, heard } = await startRun(a, agent);
        for await (const { type } of heard) {
          if (type === "text-delta" || type === "text-start") break;
        }
        const there = await follow(b, runId);
        const fromMs = performance.now();
        const over = list === killed ? a.kill() : a.terminate();
        for await (const { type, atMs } of there) {
          if (type !== "step-reset") continue;
          list.push(atMs - fromMs);
          break;
        }
        await fetch(`http://127.0.0.1:${b.port}/v1/runs/${runId}/stop`, {
          method: "POST",
          headers: headersOf(b),
        });
        await over;
      }
    }
  } finally {
    await b.stop();
  }
  const told = (list: number[]) => list.map((ms) => (ms / 1000).toFixed(1)).join(", ");
  return [
    `a run goes on after kill -9 of its replica: ${told(killed)} s`,
    `a run whose model is silent goes on after SIGTERM to its replica: ${told(ended)} s`,
  ];
}

/** Readers that come back a thousand times, here and there, against the log as it is at the end. */
async function measureReconnects(start: Start): Promise<string> {
  return await withTwo(start, {}, async (a, b) => {
    let reconnects = 0;
    const first: number[] = [];
    let wrong = 0;
    const one = async (index: number) => {
      const { runId, heard } = await startRun(a, "long");
      const frames: string[] = [];
      let last = 0;
      let over = false;
      let events: AsyncGenerator<Heard, void, void> = heard;
      while (!over) {
        const fromMs = performance.now();
        let count = 0;
        for await (const { seq, type, atMs, frame } of events) {
          if (count++ === 0 && frames.length > 0) first.push(atMs - fromMs);
          frames.push(frame);
          last = seq;
          over = type === "finish";
          if (over || count > 20 + (index * 7 + frames.length) % 60) break;
        }
        if (over) break;
        reconnects++;
        events = await follow(reconnects % 2 === 0 ? a : b, runId, last);
      }
      const whole = await collect(await follow(b, runId));
      if (frames.join("\n\n") !== whole.map(({ frame }) => frame).join("\n\n")) wrong++;
    };
    await Promise.all(Array.from({ length: READERS }, (_, index) => one(index)));
    if (wrong > 0) {
      throw new Error(`${wrong} of ${READERS} readers have other streams than the log`);
    }
    const p50 = quantile(first, 0.5);
    const p99 = quantile(first, 0.99);
    return `${reconnects} reconnects of ${READERS} readers: all streams are the log, first event after p50 ${p50} ms, p99 ${p99} ms`;
  });
}

/** What a replica grows by under 500 clients that follow a run that says a lot, and never read. */
async function measureStuckReaders(start: Start): Promise<string> {
  const a = await start("a");
  const sockets: Deno.Conn[] = [];
  try {
    const { runId, heard } = await startRun(a, "wide");
    const reading = collect(heard);
    const before = await residentBytes(a.pid);
    const fields = Object.entries(headersOf(a)).map(([name, value]) => `${name}: ${value}`);
    const lines = [`GET /v1/runs/${runId}/stream HTTP/1.1`, "host: 127.0.0.1", ...fields, "", ""];
    const request = new TextEncoder().encode(lines.join("\r\n"));
    for (let count = 0; count < 500; count++) {
      const socket = await Deno.connect({ hostname: "127.0.0.1", port: a.port });
      sockets.push(socket);
      await socket.write(request);
    }
    const events = (await reading).length;
    const grown = (await residentBytes(a.pid) - before) / MEGABYTE;
    return `500 readers that never read a run of ${events} events: ${grown.toFixed(0)} MB more`;
  } finally {
    for (const socket of sockets) socket.close();
    await a.stop();
  }
}

/** What runs with one tool call leave in Postgres, and how many of its transactions a second they make. */
async function measureRows(start: Start, base: StartedHub): Promise<string[]> {
  const sql = postgres(base.psql, { max: 1 });
  const a = await start("a");
  try {
    const look = async () => {
      const [row] = await sql`
        select (select count(*)::int from hub.runs) as runs,
          (select count(*)::int from hub.run_events) as batches,
          (select count(*)::int from hub.parts) as parts,
          (select count(*)::int from hub.usage) as usage,
          (select xact_commit::float8 from pg_stat_database where datname = current_database()) as commits,
          (select sum(pg_total_relation_size(c.oid))::float8 from pg_class c
            join pg_namespace n on n.oid = c.relnamespace where n.nspname = 'hub' and c.relkind = 'r') as bytes`;
      return row as Record<string, number>;
    };
    const seconds = 8;
    const before = await look();
    const { turnsPerSecond } = await measureAgents(a, { agent: "weather", at: 32, seconds });
    // Postgres' own figures are told some time after the fact.
    await new Promise((resolve) => setTimeout(resolve, 2000));
    const after = await look();
    const more = (name: string) => (after[name] ?? NaN) - (before[name] ?? NaN);
    const each = (name: string) => (more(name) / more("runs")).toFixed(1);
    const kibibytes = (more("bytes") / more("runs") / 1024).toFixed(1);
    return [
      `a run of two steps and one tool call leaves ${kibibytes} KiB, indexes too: ${
        each("batches")
      } batches of its log, ${each("parts")} parts, ${each("usage")} usage rows`,
      `32 sessions at once: ${turnsPerSecond.toFixed(0)} runs/s, ${
        (more("commits") / (seconds + 2)).toFixed(0)
      } transactions/s`,
    ];
  } finally {
    await a.stop();
    await sql.end();
  }
}

async function collect(events: AsyncGenerator<Heard, void, void>): Promise<Heard[]> {
  const all: Heard[] = [];
  for await (const event of events) all.push(event);
  return all;
}

async function folderOf({ folder }: Options, name: string): Promise<string> {
  const path = `${folder}/${name}`;
  await Deno.mkdir(path, { recursive: true });
  await Deno.chmod(path, 0o755);
  return path;
}

function quantile(values: readonly number[], share: number): string {
  const sorted = values.toSorted((a, b) => a - b);
  return (sorted[Math.floor((sorted.length - 1) * share)] ?? NaN).toFixed(1);
}
