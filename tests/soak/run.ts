import { findLeaks, KINDS, soak } from "./soak.ts";

/**
 * `deno task soak`: connects and closes over every transport again and again, and fails when something is left. Each
 * `--cycles 500` times; `--processes` and `--served` stand for those that start processes and those of `/mcp`; `--only`
 * one kind.
 */
function option(name: string, otherwise: number): number {
  const at = Deno.args.indexOf(name);
  return at < 0 ? otherwise : Number(Deno.args[at + 1]);
}

const cycles = option("--cycles", 500);
const processes = option("--processes", cycles);
const served = option("--served", cycles);
const say = (line: string) => void Deno.stdout.writeSync(new TextEncoder().encode(`${line}\n`));
const megabytes = (bytes: number) => (bytes / 1024 / 1024).toFixed(1);

const only = Deno.args.indexOf("--only");
const kinds = only < 0 ? Object.keys(KINDS) : [Deno.args[only + 1] ?? ""];
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
for (const leak of leaks) say(leak);
Deno.exit(leaks.length === 0 ? 0 : 1);
