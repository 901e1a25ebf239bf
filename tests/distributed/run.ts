import postgres from "postgres";
import { startServer } from "../support/postgres.ts";

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
  for (const { name } of Deno.readDirSync(folder)) {
    const path = `${folder}/${name}`;
    if (!name.endsWith("_test.ts") || OF_NO_SWITCH.some((begin) => name.startsWith(begin))) {
      continue;
    }
    const text = await Deno.readTextFile(path);
    if (/\b(?:withDatabase|startTestPostgres)\b/.test(text)) files.push(path);
  }
}
const { tasks } = JSON.parse(await Deno.readTextFile("deno.json"));
const permissions = tasks.test.command.split(" ").filter((word: string) => word.startsWith("--"));
const server = await startServer();
await withoutDisk(server.url);
const { code } = await new Deno.Command(Deno.execPath(), {
  args: ["test", "--no-check", "--parallel", ...permissions, ...files.sort()],
  env: { LOOPHUB_TEST_DATABASE_URL: server.url, LOOPHUB_TEST_DISTRIBUTED: "1" },
}).spawn().status.finally(() => server.stop());
Deno.exit(code);

/** Nothing of these databases has to outlive the server. */
async function withoutDisk(url: string): Promise<void> {
  const superuser = new URL(url);
  superuser.username = "postgres";
  const sql = postgres(superuser.href, { max: 1, onnotice() {} });
  for (const name of ["fsync", "full_page_writes", "synchronous_commit"]) {
    await sql.unsafe(`alter system set ${name} = off`);
  }
  await sql`select pg_reload_conf()`;
  await sql.end();
}
