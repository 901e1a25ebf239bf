import { runChaos } from "./chaos.ts";

/** `deno task chaos --kills 1000`: the long form, with its figures at the end. */
const at = Deno.args.indexOf("--kills");
const kills = at < 0 ? 100 : Number(Deno.args[at + 1]);
const startedMs = performance.now();
const say = (line: string) => void Deno.stdout.writeSync(new TextEncoder().encode(`${line}\n`));
const report = await runChaos({
  kills,
  replicas: 3,
  runs: 6,
  steps: 30,
  random: Math.random,
  say,
});
say(JSON.stringify({ ...report, seconds: Math.round((performance.now() - startedMs) / 1000) }));
