import { hasProgram } from "./programs.ts";
import { eventually } from "./test_hub.ts";

/** Whether PgBouncer is installed here. */
export const hasPgbouncer: boolean = hasProgram("pgbouncer");

/** A PgBouncer in front of a Postgres, pooling by transaction. */
export interface Pgbouncer {
  /** The address of the same database through it. */
  url: string;
  stop(): Promise<void>;
}

/** Starts one with so few connections to Postgres that all clients must share them. */
export async function startPgbouncer(url: string, { poolSize }: { poolSize: number }): Promise<
  Pgbouncer
> {
  const { hostname, port, username, password, pathname } = new URL(url);
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-pgbouncer-" });
  await Deno.chmod(folder, 0o755);
  const ownPort = freePort();
  await Deno.writeTextFile(`${folder}/users.txt`, `"${username}" "${password}"\n`);
  await Deno.writeTextFile(
    `${folder}/pgbouncer.ini`,
    `[databases]
* = host=${hostname} port=${port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${ownPort}
unix_socket_dir =
auth_type = plain
auth_file = ${folder}/users.txt
pool_mode = transaction
default_pool_size = ${poolSize}
`,
  );
  // It refuses to run as root.
  const user = Deno.uid() === 0 ? ["-u", "nobody"] : [];
  const child = new Deno.Command("pgbouncer", {
    args: ["-q", ...user, `${folder}/pgbouncer.ini`],
    stdout: "null",
    stderr: "null",
  }).spawn();
  await eventually(() =>
    Deno.connect({ port: ownPort }).then((connection) => (connection.close(), true), () => null)
  );
  const through = new URL(url);
  through.host = `127.0.0.1:${ownPort}`;
  through.pathname = pathname;
  return {
    url: through.href,
    async stop() {
      child.kill("SIGKILL");
      await child.status;
      await Deno.remove(folder, { recursive: true });
    },
  };
}

function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}
