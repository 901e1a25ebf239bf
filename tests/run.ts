import { findBubblewrap } from "../src/process/sandbox.ts";
import { describeMissing } from "./support/programs.ts";
import { runTests } from "./support/run_tests.ts";
import { systemClock } from "./support/system_clock.ts";
import { planTests } from "./support/test_plan.ts";

/**
 * `deno task test`: all tests, or those of the files that are named. `--checked` says that the types were checked before.
 */
const checked = Deno.args.includes("--checked");
const named = Deno.args.filter((arg) => arg !== "--checked");
const runs = named.length > 0 ? [{ files: named, jobs: 1 }] : planTests();

/**
 * Tests without their program are left out and named, before the tests and after them. On CI, where that would pass for a
 * success, the run fails at once.
 */
const path = Deno.env.get("PATH") ?? "/usr/bin:/bin";
const sandbox = await findBubblewrap({ path, clock: systemClock });
const missing = describeMissing(path);
if (!sandbox.works) missing.push(`Tests of the sandbox are left out: ${sandbox.reason}`);
const leftOut = missing.map((line) => `${line}\n`).join("");
const say = () => Deno.stderr.writeSync(new TextEncoder().encode(leftOut));
say();
if (leftOut !== "" && Deno.env.get("CI") === "true") Deno.exit(1);
const code = await runTests(runs, { checked });
say();
Deno.exit(code);
