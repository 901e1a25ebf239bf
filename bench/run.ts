import { measureAgents } from "./agents.ts";
import { measureKills } from "./killed.ts";
import { measureStreams } from "./memory.ts";
import { type Load, measure, type Sample } from "./measure.ts";
import { measureMapping } from "./mapping.ts";
import { measureOverload } from "./overload.ts";
import { measureOutage } from "./outage.ts";
import { measureReplicas } from "./replicas.ts";
import { startHub, startMock, startNginx, type Target, targetsOfRoutes } from "./targets.ts";

/** One way of loading: name, body and how many at once. */
interface Plan {
  name: string;
  load: Load;
}

const quick = Deno.args.includes("--quick");
const only = ["mapping", "overload", "outage", "replicas", "killed"].find((part) =>
  Deno.args.includes(part)
);
const seconds = quick ? 1.2 : 3;
const rounds = quick ? 3 : 5;

const body = (model: string, stream: boolean) =>
  JSON.stringify({
    model,
    stream,
    ...(stream ? { stream_options: { include_usage: true } } : {}),
    messages: [
      { role: "system", content: "You are helpful." },
      { role: "user", content: "Tell me about foxes and dogs, please, in one paragraph." },
    ],
  });

const PLANS: Plan[] = [
  { name: "non-stream, 16", load: { body: body("mock", false), at: 16 } },
  { name: "non-stream, 64", load: { body: body("mock", false), at: 64 } },
  { name: "stream flat out, 16", load: { body: body("mock-n256-d0-k1", true), at: 16, sse: true } },
  {
    name: "stream paced, 100",
    load: { body: body("mock-n200-d10-k1", true), at: 100, sse: true },
  },
  {
    name: "first token, 50",
    load: { body: body("mock-n32-d20-k1", true), at: 50, sse: true, rampMs: 600 },
  },
];

/** The models of the plans. */
const MODELS = PLANS.map(({ load }) => String(JSON.parse(load.body).model));

if (only === undefined || only === "mapping") printLines(await measureMapping(rounds * 10));
if (only === "mapping") Deno.exit(0);
if (only === "killed") {
  printLines(await measureKills({ kills: quick ? 5 : 30 }));
  Deno.exit(0);
}

const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-bench-" });
await Deno.chmod(folder, 0o755);
const stops: (() => Promise<void>)[] = [];
try {
  const mock = await startMock();
  stops.push(mock.stop);
  if (only === undefined) await measureAll(mock);
  if (only === undefined || only === "overload") {
    const length = seconds * 2;
    printLines(await measureOverload({ folder, upstream: mock.port, rounds, seconds: length }));
  }
  if (only === "outage") {
    const outage = quick ? { rounds: 3, seconds: 8 } : { rounds: 2, seconds: 60 };
    printLines(await measureOutage({ folder, upstream: mock.port, ...outage }));
  }
  if (only === "replicas") {
    printLines(await measureReplicas({ folder, upstream: mock.port, rounds }));
  }
} finally {
  for (const stop of stops.reverse()) await stop();
  await Deno.remove(folder, { recursive: true });
}

/** Everything that is measured on a hub with room for all. */
async function measureAll(mock: Awaited<ReturnType<typeof startMock>>): Promise<void> {
  const targets: Target[] = [{ ...mock, name: "direct", pid: null, headers: [] }];
  const nginx = await startNginx(folder, mock.port);
  if (nginx !== null) {
    stops.push(nginx.stop);
    targets.push(nginx);
  }
  const limits = { routed: MODELS };
  const first = await startHub(folder, mock.port, limits);
  await first.stop();
  const hub = await startHub(folder, mock.port, limits);
  targets.push(hub, ...await targetsOfRoutes(hub));

  const samples = new Map<string, Sample[]>();
  for (const plan of PLANS) {
    for (let round = 0; round <= rounds; round++) {
      for (const target of targets) {
        // The first round warms up; a runtime that compiles while it runs needs some seconds of it.
        const length = round === 0 ? 3 : seconds;
        const sample = await measure(target, { load: plan.load, seconds: length, folder });
        if (round === 0) continue;
        const key = `${plan.name}|${target.name}`;
        samples.set(key, [...samples.get(key) ?? [], sample]);
      }
    }
  }
  printTable(samples, targets.map((target) => target.name));
  const memory = await measureStreams(hub, { streams: 1000, folder });
  await measureAgents(hub, { agent: "weather", at: 16, seconds });
  const agents = await measureAgents(hub, { agent: "weather", at: 16, seconds: seconds * 2 });
  printLines([
    `start: ${Math.round(first.readyMs)} ms the first time, ${
      Math.round(hub.readyMs)
    } ms with its data`,
    `memory: ${memory.idle.toFixed(0)} MB after the load above, ${
      memory.added.toFixed(0)
    } MB more under 1000 slow streams (${memory.errors} errors)`,
    `agent, 16 at once, one tool call and an answer each, stored: ${
      agents.turnsPerSecond.toFixed(0)
    } turns/s, ${agents.cpuMicrosPerEvent.toFixed(1)} CPU µs an event (${
      agents.eventsPerTurn.toFixed(0)
    } events a turn, ${agents.failed} failed)`,
  ]);
  await hub.stop();
}

function printTable(samples: Map<string, Sample[]>, names: string[]): void {
  const rows = [[
    "plan",
    "target",
    "per second",
    "of direct",
    "of nginx",
    "CPU µs each",
    "p50 ms",
    "p99 ms",
    "first p50 ms",
    "first p99 ms",
    "errors",
  ]];
  for (const { name: plan } of PLANS) {
    const rate = (target: string) => median(samples.get(`${plan}|${target}`) ?? [], "rate");
    for (const target of names) {
      const own = samples.get(`${plan}|${target}`) ?? [];
      const of = (other: string) =>
        names.includes(other) ? (rate(target) / rate(other)).toFixed(2) : "-";
      rows.push([
        plan,
        target,
        Math.round(rate(target)).toString(),
        of("direct"),
        of("nginx"),
        target === "direct" ? "-" : median(own, "cpuMicros").toFixed(1),
        ...(["p50", "p99", "first50", "first99"] as const).map((key) =>
          median(own, key).toFixed(2)
        ),
        String(own.reduce((sum, sample) => sum + sample.errors, 0)),
      ]);
    }
  }
  rows.splice(1, 0, rows[0]?.map(() => "---") ?? []);
  printLines(rows.map((row) => `| ${row.join(" | ")} |`));
}

function printLines(lines: string[]): void {
  Deno.stdout.writeSync(new TextEncoder().encode(`${lines.join("\n")}\n`));
}

function median(samples: readonly Sample[], key: keyof Sample): number {
  const values = samples.map((sample) => sample[key]).sort((a, b) => a - b);
  return values[Math.floor((values.length - 1) / 2)] ?? 0;
}
