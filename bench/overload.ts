import { cpuSeconds } from "./measure.ts";
import { pinned } from "./pin.ts";
import { type HubSettings, keyOf, type StartedHub, startHub } from "./targets.ts";

const build = new URL("build/", import.meta.url).pathname;
/** Requests that the hub does at one time; as many more wait twice over. */
const PLACES = 64;
const TIMES = 10;
/** About half a second of work: places are what is scarce, not the CPU. */
const MODEL = "mock/mock-n45-d10-k1";

const GATES: { name: string; limits: HubSettings; policy?: unknown }[] = [
  { name: "hub", limits: { server: { maxConcurrentRequests: PLACES } } },
  { name: "key", limits: {}, policy: { maxConcurrent: PLACES } },
  { name: "provider", limits: { provider: { maxConcurrent: PLACES } } },
];

/** The queue is full, and what it delays is seen, only after a while. */
const WARM_SECONDS = 1;

/** What the load client says; times in milliseconds. */
export type Figures = Record<string, number>;

/**
 * A hub with few places, asked first by as many clients as it has places, then at ten times the rate that this gave,
 * whatever it answers. Gives a table.
 */
export async function measureOverload(
  options: { folder: string; upstream: number; rounds: number; seconds: number },
): Promise<string[]> {
  const { folder, upstream, rounds, seconds } = options;
  const file = `${folder}/overload.json`;
  const message = { role: "user", content: "Tell me about foxes and dogs, please." };
  await Deno.writeTextFile(
    file,
    JSON.stringify({ model: MODEL, stream: true, messages: [message] }),
  );
  const rows: string[][] = [];
  for (const { name, limits, policy } of GATES) {
    const started = await startHub(folder, upstream, limits);
    const headers = policy === undefined ? started.headers : [await keyOf(started, name, policy)];
    const hub = { ...started, headers };
    try {
      const peaks: Figures[] = [];
      const overloads: Figures[] = [];
      await load(hub, { file, seconds: 3, args: ["-c", PLACES] });
      for (let round = 0; round < rounds; round++) {
        const peak = await load(hub, { file, seconds, args: ["-c", PLACES] });
        peaks.push(peak);
        const rate = Math.round((peak["rps"] ?? 0) * TIMES);
        overloads.push(await load(hub, { file, seconds, args: ["-r", rate, "-c", 4000] }));
      }
      const [peak, over] = [median(peaks), median(overloads)];
      rows.push([
        name,
        peak("rps").toFixed(0),
        over("rps").toFixed(0),
        `${(over("rps") / peak("rps") * 100).toFixed(1)} %`,
        (over("refused") / over("sec")).toFixed(0),
        ...["refused_p50", "refused_p99", "refused_max", "late_p99"].map((key) =>
          over(key).toFixed(1)
        ),
        ...["ttft_p99", "total_p99"].map((key) =>
          `${peak(key).toFixed(0)} → ${over(key).toFixed(0)}`
        ),
        `${(peak("cpu") / peak("sec") * 100).toFixed(0)} → ${
          (over("cpu") / over("sec") * 100).toFixed(0)
        }`,
        String(sum(overloads, "err") + sum(overloads, "missed")),
        String(sum(overloads, "unhinted")),
      ]);
    } finally {
      await hub.stop();
    }
  }
  const head = [
    `overload ×${TIMES} at the gate`,
    "peak/s",
    "served/s",
    "goodput",
    "refused/s",
    "refusal p50 ms",
    "p99 ms",
    "max ms",
    "load's own delay p99 ms",
    "first token p99 ms",
    "whole p99 ms",
    "CPU %",
    "errors",
    "without Retry-After",
  ];
  return [head, head.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`);
}

/** Streams against a hub, as the load client's own arguments say. */
export async function load(
  hub: StartedHub,
  { file, seconds, args }: { file: string; seconds: number; args: (string | number)[] },
): Promise<Figures> {
  const all = [
    ...["-P", hub.port, "-u", "/v1/chat/completions", "-f", file, "-s"],
    ...["-d", seconds, "-w", WARM_SECONDS, "-T", 60, ...args],
    ...hub.headers.flatMap((header) => ["-H", header]),
  ].map(String);
  const child = new Deno.Command(...pinned(0, `${build}load`, all, { stdout: "piped" })).spawn();
  const output = child.output();
  await new Promise((resolve) => setTimeout(resolve, WARM_SECONDS * 1000 + 20));
  const before = await cpuSeconds(hub.pid);
  const { stdout } = await output;
  const cpu = await cpuSeconds(hub.pid) - before;
  return { ...JSON.parse(new TextDecoder().decode(stdout)), cpu } as Figures;
}

/** The middle one of each figure. */
export function median(samples: readonly Figures[]): (key: string) => number {
  return (key) => {
    const values = samples.map((sample) => sample[key] ?? 0).sort((a, b) => a - b);
    return values[Math.floor((values.length - 1) / 2)] ?? 0;
  };
}

const sum = (samples: readonly Figures[], key: string) =>
  samples.reduce((total, sample) => total + (sample[key] ?? 0), 0);
