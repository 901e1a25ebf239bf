import { runTests } from "./support/run_tests.ts";

/** Folders whose tests start whole processes, kill them, or count what the machine does. */
const ALONE = ["chaos", "e2e", "mutants"];

/**
 * `deno task test`: all tests, or those of the files that are named. `--checked` says that the types were checked before.
 */
const checked = Deno.args.includes("--checked");
const named = Deno.args.filter((arg) => arg !== "--checked");
const here = [...Deno.readDirSync("tests")]
  .filter(({ name, isDirectory }) => isDirectory || name.endsWith("_test.ts"))
  .map(({ name }) => name)
  .sort();
const together = here.filter((name) => !ALONE.includes(name)).map((name) => `tests/${name}`);
const runs = named.length > 0 ? [{ files: named, parallel: false }] : [
  { files: together, parallel: true },
  { files: ALONE.map((name) => `tests/${name}`), parallel: false },
];
Deno.exit(await runTests(runs, { checked }));
