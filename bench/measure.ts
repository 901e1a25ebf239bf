import { pinned } from "./pin.ts";
import type { Target } from "./targets.ts";

/** A load: the request's body, how many are under way at once, and whether answers are streams. */
export interface Load {
  body: string;
  at: number;
  sse?: boolean;
  rampMs?: number;
}

/** One measurement. `rate` is requests, or events of streams, per second; CPU is the target's per request or event. */
export interface Sample {
  rate: number;
  cpuMicros: number;
  p50: number;
  p99: number;
  first50: number;
  first99: number;
  errors: number;
}

const build = new URL("build/", import.meta.url).pathname;
const WARM_SECONDS = 0.3;

/** Loads a target once and looks at the CPU time of its processes over the measured part. */
export async function measure(
  target: Target,
  { load, seconds, folder }: { load: Load; seconds: number; folder: string },
): Promise<Sample> {
  const file = `${folder}/body.json`;
  await Deno.writeTextFile(file, target.mapBody?.(load.body) ?? load.body);
  const args = [
    ...["-P", target.port, "-u", "/v1/chat/completions", "-f", file],
    ...["-c", load.at, "-d", seconds, "-w", WARM_SECONDS, "-T", 60],
    ...(load.sse === true ? ["-s"] : []),
    ...(load.rampMs === undefined ? [] : ["-R", load.rampMs]),
    ...target.headers.flatMap((header) => ["-H", header]),
  ].map(String);
  const child = new Deno.Command(...pinned(0, `${build}load`, args, { stdout: "piped" })).spawn();
  await wait(WARM_SECONDS * 1000 + 20);
  const startedMs = performance.now();
  const before = await cpuSeconds(target.pid);
  await wait(seconds * 1000 - 60);
  const cpu = await cpuSeconds(target.pid) - before;
  const share = cpu / ((performance.now() - startedMs) / 1000);
  const { stdout } = await child.output();
  const result = JSON.parse(new TextDecoder().decode(stdout)) as Record<string, number>;
  const rate = (load.sse === true ? result["eps"] : result["rps"]) ?? 0;
  return {
    rate,
    cpuMicros: rate > 0 ? share / rate * 1e6 : 0,
    p50: result["total_p50"] ?? 0,
    p99: result["total_p99"] ?? 0,
    first50: result["ttft_p50"] ?? result["ttfb_p50"] ?? 0,
    first99: result["ttft_p99"] ?? result["ttfb_p99"] ?? 0,
    errors: result["err"] ?? 0,
  };
}

const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** CPU seconds of a process and its children so far; `cat` reads `/proc`, which the runtime itself keeps closed. */
export async function cpuSeconds(pid: number | null): Promise<number> {
  if (pid === null) return 0;
  const script =
    "for p in $1 $(cat /proc/$1/task/*/children 2>/dev/null); do cat /proc/$p/stat; done";
  const { stdout } = await new Deno.Command("sh", { args: ["-c", script, "sh", String(pid)] })
    .output();
  let ticks = 0;
  for (const line of new TextDecoder().decode(stdout).trim().split("\n")) {
    const fields = line.slice(line.lastIndexOf(")") + 2).split(" ");
    ticks += Number(fields[11] ?? 0) + Number(fields[12] ?? 0);
  }
  return ticks / 100;
}
