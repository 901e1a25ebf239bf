import { runChaos } from "./chaos.ts";

/** A number behind a flag. */
function option(name: string, otherwise: number): number {
  const at = Deno.args.indexOf(name);
  return at < 0 ? otherwise : Number(Deno.args[at + 1]);
}

/** `deno task chaos --kills 1000`: the long form, with its figures at the end; `--postgres-turn 1` restarts Postgres only. */
const startedMs = performance.now();
const say = (line: string) => void Deno.stdout.writeSync(new TextEncoder().encode(`${line}\n`));
const report = await runChaos({
  kills: option("--kills", 100),
  postgresTurn: option("--postgres-turn", 10),
  replicas: 3,
  runs: 6,
  steps: 30,
  random: Math.random,
  say,
});
say(JSON.stringify({ ...report, seconds: Math.round((performance.now() - startedMs) / 1000) }));
