import { filesUnder } from "./files_under.ts";
import type { TestRun } from "./run_tests.ts";

/** Tests that start whole processes and kill them have the machine to themselves. */
const ALONE = ["chaos", "mutants"];
/** Those of whole hubs mostly wait, and run four files at a time, but for those that measure time. */
const WHOLE = "e2e";
const MEASURES = /\btookUnder\b/;

/** All tests of the gate, run by run. */
export function planTests(): TestRun[] {
  const together = [...Deno.readDirSync("tests")]
    .filter(({ name, isDirectory }) => isDirectory || name.endsWith("_test.ts"))
    .map(({ name }) => name)
    .filter((name) => name !== WHOLE && !ALONE.includes(name))
    .sort()
    .map((name) => `tests/${name}`);
  const whole = filesUnder(`tests/${WHOLE}`, "_test.ts");
  const measuring = whole.filter((file) => MEASURES.test(Deno.readTextFileSync(file)));
  return [
    { files: together, jobs: null },
    { files: whole.filter((file) => !measuring.includes(file)), jobs: 4 },
    { files: [...measuring, ...ALONE.map((name) => `tests/${name}`)], jobs: 1 },
  ];
}
