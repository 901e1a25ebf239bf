import postgres from "postgres";
import { startServer } from "./postgres.ts";

/** Files that are run by one `deno test`. */
export interface TestRun {
  files: readonly string[];
  /** Files that run at the same time; null for as many as the machine has cores. */
  jobs: number | null;
}

const PERMISSIONS = [
  "--allow-net=127.0.0.1,localhost,[::1]",
  "--allow-env",
  "--allow-read",
  "--allow-write",
  "--allow-run",
  "--allow-sys=uid,gid,hostname",
];

/** Runs tests one run after the other, all on one Postgres server, each in databases of its own. The exit code of the first that failed. */
export async function runTests(
  runs: readonly TestRun[],
  { checked, env = {} }: { checked: boolean; env?: Record<string, string> },
): Promise<number> {
  const server = await startServer();
  try {
    await withoutDisk(server.url);
    let failed = 0;
    for (const { files, jobs } of runs) {
      const { code } = await new Deno.Command(Deno.execPath(), {
        args: [
          "test",
          ...(checked ? ["--no-check"] : []),
          ...(jobs === 1 ? [] : ["--parallel"]),
          ...PERMISSIONS,
          ...files,
        ],
        env: {
          ...env,
          LOOPHUB_TEST_DATABASE_URL: server.url,
          ...(jobs === null ? {} : { DENO_JOBS: String(jobs) }),
        },
      }).spawn().status;
      failed ||= code;
    }
    return failed;
  } finally {
    await server.stop();
  }
}

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
