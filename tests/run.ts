import { findBubblewrap } from "../src/process/sandbox.ts";
import { describeMissing } from "./support/programs.ts";
import { runTests, type TestRun } from "./support/run_tests.ts";
import { systemClock } from "./support/system_clock.ts";

/** Tests that start whole processes and kill them have the machine to themselves. */
const ALONE = ["chaos", "mutants"];
/** Those of whole hubs mostly wait, and run four files at a time, but for those that measure time. */
const WHOLE = "e2e";
const MEASURES = /\btookUnder\b/;

/**
 * `deno task test`: all tests, or those of the files that are named. `--checked` says that the types were checked before.
 */
const checked = Deno.args.includes("--checked");
const named = Deno.args.filter((arg) => arg !== "--checked");
const here = [...Deno.readDirSync("tests")]
  .filter(({ name, isDirectory }) => isDirectory || name.endsWith("_test.ts"))
  .map(({ name }) => name)
  .sort();
const together = here.filter((name) => name !== WHOLE && !ALONE.includes(name))
  .map((name) => `tests/${name}`);
const whole = [...Deno.readDirSync(`tests/${WHOLE}`)]
  .filter(({ name }) => name.endsWith("_test.ts"))
  .map(({ name }) => `tests/${WHOLE}/${name}`)
  .sort();
const measuring = whole.filter((file) => MEASURES.test(Deno.readTextFileSync(file)));
const runs: TestRun[] = named.length > 0 ? [{ files: named, jobs: 1 }] : [
  { files: together, jobs: null },
  { files: whole.filter((file) => !measuring.includes(file)), jobs: 4 },
  { files: [...measuring, ...ALONE.map((name) => `tests/${name}`)], jobs: 1 },
];

/** What is not installed has its tests left out by name; on CI, where a missing program would pass for a success, the run fails. */
const path = Deno.env.get("PATH") ?? "/usr/bin:/bin";
const sandbox = await findBubblewrap({ path, clock: systemClock });
const missing = describeMissing(path);
if (!sandbox.works) missing.push(`Tests of the sandbox are left out: ${sandbox.reason}`);
const leftOut = missing.map((line) => `${line}\n`).join("");
const say = () => Deno.stderr.writeSync(new TextEncoder().encode(leftOut));
if (leftOut !== "" && Deno.env.get("CI") === "true") {
  say();
  Deno.exit(1);
}
const code = await runTests(runs, { checked });
say();
Deno.exit(code);
