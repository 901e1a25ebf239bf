import postgres from "postgres";
import { SILENT_LOG } from "../../src/core/log.ts";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "../../src/store/embedded_postgres.ts";
import { copyFolder } from "./copy_folder.ts";
import { childrenOf, stateOf } from "./processes.ts";
import { eventually } from "./test_hub.ts";
import { systemClock } from "./system_clock.ts";

/** A Postgres of a test's own that can be stopped, killed, frozen and started again at the same address. */
export interface PostgresServer {
  url: string;
  /** Runs statements as the superuser, who may write at any time. */
  admin<T = Record<string, unknown>>(text: string): Promise<T[]>;
  stop(how: "fast" | "immediate"): Promise<void>;
  start(): Promise<void>;
  /** Stops it, keeps a copy of the cluster's folder, and starts it again. */
  keepCopy(): Promise<void>;
  /** Puts the copy in the place of the cluster, as a failover to a standby that was behind does: everything since is lost. */
  restoreCopy(): Promise<void>;
  /** Stops the postmaster and its backends in their tracks (SIGSTOP). */
  freeze(): Promise<void>;
  thaw(): void;
}

/** Runs a body with such a server, and ends it. */
export async function withPostgresServer(
  body: (server: PostgresServer) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-trouble-" });
  await Deno.chmod(folder, 0o755);
  const options = { dataDir: `${folder}/data`, log: SILENT_LOG, clock: systemClock };
  let running: EmbeddedPostgres = await startEmbeddedPostgres(options);
  let frozen: number[] = [];
  const superuser = new URL(running.url);
  superuser.username = "postgres";
  const thaw = () => {
    for (const pid of frozen) Deno.kill(pid, "SIGCONT");
    frozen = [];
  };
  const stop = async (how: "fast" | "immediate") => {
    if (how === "immediate") {
      Deno.kill(running.pid, "SIGQUIT");
      await running.exited;
    }
    await running.stop();
  };
  const start = async () => {
    running = await startEmbeddedPostgres(options);
  };
  try {
    await body({
      url: running.url,
      async admin<T>(text: string) {
        const sql = postgres(superuser.href, { max: 1, onnotice() {} });
        try {
          await sql`set default_transaction_read_only = off`;
          return [...await sql.unsafe(text).simple()] as T[];
        } finally {
          await sql.end({ timeout: 2 });
        }
      },
      stop,
      start,
      async keepCopy() {
        await stop("fast");
        await copyFolder(`${folder}/data/data`, `${folder}/copy`);
        await start();
      },
      async restoreCopy() {
        await stop("immediate");
        await Deno.remove(`${folder}/data/data`, { recursive: true });
        await copyFolder(`${folder}/copy`, `${folder}/data/data`);
        await start();
      },
      async freeze() {
        Deno.kill(running.pid, "SIGSTOP");
        frozen.push(running.pid);
        for (const pid of await childrenOf(running.pid)) {
          Deno.kill(pid, "SIGSTOP");
          frozen.push(pid);
        }
        await eventually(async () => await stateOf(running.pid) === "T" || null);
      },
      thaw,
    });
  } finally {
    thaw();
    await running.stop();
    await Deno.remove(folder, { recursive: true });
  }
}
