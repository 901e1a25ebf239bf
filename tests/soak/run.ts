import { findGrowth, longRun } from "./long_run.ts";
import { findLeaks, KINDS, soak } from "./soak.ts";

/**
 * `deno task soak`: connects and closes over every transport again and again, and fails when something is left. Each
 * `--cycles 500` times; `--processes` and `--served` stand for those that start processes and those of `/mcp`; `--only`
 * one kind, or `"long run"`: one run of `--steps 300`, whose memory must stay bounded.
 */
function option(name: string, otherwise: number): number {
  const at = Deno.args.indexOf(name);
  return at < 0 ? otherwise : Number(Deno.args[at + 1]);
}

/** How `--only` names a run of `--steps`. */
const LONG_RUN = "long run";
const cycles = option("--cycles", 500);
const processes = option("--processes", cycles);
const served = option("--served", cycles);
const say = (line: string) => void Deno.stdout.writeSync(new TextEncoder().encode(`${line}\n`));
const megabytes = (bytes: number) => (bytes / 1024 / 1024).toFixed(1);

const only = Deno.args.indexOf("--only");
const named = only < 0 ? null : Deno.args[only + 1] ?? "";
const kinds = named === null ? Object.keys(KINDS) : named === LONG_RUN ? [] : [named];
const leaks: string[] = [];
for (const kind of kinds) {
  const times = /stdio/.test(kind) ? processes : /to hub$/.test(kind) ? served : cycles;
  const result = await soak(kind, times);
  const { before, half, all, after, seconds } = result;
  say(
    `${kind}: ${times} cycles in ${seconds} s; files ${before.files} ${half.files} ` +
      `${all.files} ${after.files}, children ${before.children} ${half.children} ` +
      `${all.children} ${after.children}, heap ${megabytes(half.heap)} ${megabytes(all.heap)} ` +
      `${megabytes(after.heap)} MB, resident ${megabytes(half.resident)} ${
        megabytes(all.resident)
      } MB`,
  );
  leaks.push(...findLeaks(result));
}
const steps = option("--steps", 300);
if (steps > 0 && (named === null || named === LONG_RUN)) {
  for (const length of ["short", "long"] as const) {
    const run = await longRun(steps, length);
    const [tenth, half, all, after] = run.heap.map(megabytes);
    say(
      `${LONG_RUN}, results of ${run.resultBytes} bytes: ${run.steps} steps in ${run.seconds} s, ` +
        `${run.compactions} compactions, requests of ${run.longest} characters at most; ` +
        `heap ${tenth} ${half} ${all} MB, ${after} MB behind it`,
    );
    leaks.push(...findGrowth(run));
  }
}
for (const leak of leaks) say(leak);
Deno.exit(leaks.length === 0 ? 0 : 1);
