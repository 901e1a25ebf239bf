import { filesUnder } from "../support/files_under.ts";
import { runTests } from "../support/run_tests.ts";

/** Tests with a database that look at no switch: the driver's own troubles, LISTEN itself, rules of the schema. */
const OF_NO_SWITCH = [
  "backend_terminated",
  "conflict",
  "database",
  "listen_connection",
  "portable",
];

/** Whole hubs that run here too. */
const files = ["tests/e2e/agent_run_test.ts", "tests/e2e/sessions_test.ts"];

/**
 * `deno task test:distributed`: the tests of the store and of runs that have a database once more, on one server, with
 * all switches off; `tests/support/postgres.ts` says what that means. Types were checked before.
 */
for (const folder of ["tests/store", "tests/run"]) {
  for (const path of filesUnder(folder, "_test.ts")) {
    const name = path.slice(path.lastIndexOf("/") + 1);
    if (OF_NO_SWITCH.some((begin) => name.startsWith(begin))) continue;
    const text = await Deno.readTextFile(path);
    if (/\b(?:withDatabase|startTestPostgres)\b/.test(text)) files.push(path);
  }
}
Deno.exit(
  await runTests([{ files: files.sort(), jobs: null }], {
    checked: true,
    env: { LOOPHUB_TEST_DISTRIBUTED: "1" },
  }),
);
