import { join } from "node:path";
import { HubError } from "../core/error.ts";
import type { PostgresBinaries } from "./postgres_binaries.ts";
import { type Account, runShell } from "./shell.ts";

/** Role that the hub works as (owner of its database, no superuser), and the name of that database. */
export const EMBEDDED_ROLE = "loophub";
/** Superuser of the embedded cluster; it has the same password and serves operators only. */
export const EMBEDDED_SUPERUSER = "postgres";

/** Where a cluster lies and who owns it. */
export interface ClusterPlace {
  /** Parent of `data`; belongs to the hub's user. */
  folder: string;
  account: Account | null;
  binaries: PostgresBinaries;
}

/**
 * Settings for a hub on a small machine; written to `postgresql.conf` once, so that an operator may change them there
 * or by `ALTER SYSTEM`. Plans are short-lived queries by key: no JIT, no parallel workers (which also need `/dev/shm`).
 */
const SETTINGS: Record<string, string> = {
  shared_buffers: "128MB",
  max_connections: "100",
  max_wal_size: "1GB",
  checkpoint_timeout: "15min",
  wal_compression: "pglz",
  random_page_cost: "1.1",
  jit: "off",
  max_parallel_workers_per_gather: "0",
  password_encryption: "scram-sha-256",
  client_connection_check_interval: "10s",
  idle_in_transaction_session_timeout: "60s",
  log_min_messages: "warning",
  log_line_prefix: "%m [%p] ",
  log_timezone: "UTC",
  timezone: "UTC",
};

/** Bootstrap of role and database in single-user mode: nobody can connect before both are there. */
const INIT = `set -eu
umask 077
initdb=$1 postgres=$2 data=$3 pwfile=$4 superuser=$5
sql=$(cat)
shift 5
"$initdb" -D "$data" -U "$superuser" --pwfile="$pwfile" --auth=scram-sha-256 --encoding=UTF8 \
  --locale=C --locale-provider=builtin --builtin-locale=C.UTF-8 --data-checksums --no-instructions "$@" >/dev/null
printf '%s\\n' "$sql" | "$postgres" --single -j -D "$data" postgres >/dev/null
`;

/** What the names of half-made clusters begin with. */
const FRESH = "data.new";

/** Ends what a start that was killed has left running (`initdb` outlives it): the path comes on standard input, so that it is no argument of this script. */
const END_ORPHANS = `set -u
prefix=$(cat)
for file in /proc/[0-9]*/cmdline; do
  pid=\${file#/proc/}; pid=\${pid%/cmdline}
  args=$(tr '\\0' ' ' <"$file" 2>/dev/null) || continue
  case $args in *initdb*"$prefix"*|*postgres*"$prefix"*) kill -KILL "$pid" 2>/dev/null;; esac
done
exit 0
`;

/**
 * Removes clusters that killed starts have left half-made, and ends the programs that still work on them. This process
 * holds the lock of the data folder, so none of them is another hub's.
 */
export async function removeHalfMade({ folder, account }: ClusterPlace): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of Deno.readDir(folder)) if (name.startsWith(FRESH)) names.push(name);
  if (names.length === 0) return names;
  await runShell(END_ORPHANS, { account, args: [], input: join(folder, FRESH) });
  await removeAll(names.map((name) => join(folder, name)));
  return names;
}

/**
 * Makes a cluster in `<folder>/data` with a database and a role `loophub`. It is built beside, in a folder of this
 * start's own, and renamed, so a start that dies half-way leaves nothing that looks like a cluster.
 */
export async function createCluster(place: ClusterPlace, password: string): Promise<void> {
  const { folder, account, binaries } = place;
  const fresh = join(folder, `${FRESH}.${crypto.randomUUID().slice(0, 8)}`);
  const passwordFile = `${fresh}.password`;
  await Deno.mkdir(fresh, { mode: 0o700 });
  await Deno.writeTextFile(passwordFile, `${password}\n`, { mode: 0o600 });
  if (account !== null) {
    for (const path of [fresh, passwordFile]) await Deno.chown(path, account.uid, account.gid);
  }
  const settings = Object.entries(SETTINGS).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const { code, stderr } = await runShell(INIT, {
    account,
    args: [
      binaries.initdb,
      binaries.postgres,
      fresh,
      passwordFile,
      EMBEDDED_SUPERUSER,
      ...settings,
    ],
    // `-j` ends a statement at a semicolon and an empty line. The password is base64url: no quote can be in it.
    input: [
      `create role ${EMBEDDED_ROLE} login createdb createrole password '${password}'`,
      `create database ${EMBEDDED_ROLE} owner ${EMBEDDED_ROLE}`,
    ].map((statement) => `${statement};\n\n`).join(""),
  });
  await removeAll([passwordFile]);
  if (code !== 0) {
    throw new HubError(
      "internal_error",
      `The embedded Postgres could not be set up in ${folder}: ${lastLines(stderr)}`,
      { details: { code } },
    );
  }
  await Deno.rename(fresh, join(folder, "data"));
}

/** True when `<folder>/data` holds a cluster; throws `invalid_configuration` when it is one of another major version. */
export async function hasCluster(place: ClusterPlace): Promise<boolean> {
  const path = join(place.folder, "data", "PG_VERSION");
  let version: string;
  try {
    version = (await Deno.readTextFile(path)).trim();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
  if (version === place.binaries.major) return true;
  throw new HubError(
    "invalid_configuration",
    `${place.folder}/data was written by Postgres ${version} and this hub brings ${place.binaries.major}: ` +
      "dump it with the hub that wrote it, move the folder away, and restore into a new one (docs/operations.md, Backup)",
  );
}

const CLEAR = `set -u
data=$1
file=$data/postmaster.pid
[ -f "$file" ] || exit 0
pid=
read -r pid <"$file" || true
case $pid in ''|*[!0-9]*) rm -f "$file"; exit 0;; esac
if [ -r "/proc/$pid/cmdline" ]; then args=$(tr '\\0' ' ' <"/proc/$pid/cmdline")
else args=$(ps -o args= -p "$pid" 2>/dev/null || true); fi
alive() { kill -0 "$pid" 2>/dev/null; }
gone() {
  n=0
  while alive; do
    [ "$n" -ge "$1" ] && return 1
    n=$((n + 1)); sleep 0.05
  done
}
disown_file() { { echo 99999999; sed 1d "$file"; } >"$file.new" && mv "$file.new" "$file"; }
case "$args " in
  *"-D $data "*)
    kill -INT "$pid" 2>/dev/null; gone 200 && { echo "stopped $pid"; exit 0; }
    kill -QUIT "$pid" 2>/dev/null; gone 100 && { echo "stopped $pid"; exit 0; }
    kill -KILL "$pid" 2>/dev/null; gone 100; disown_file; echo "killed $pid";;
  *)
    disown_file; echo "stale $pid";;
esac
`;

/**
 * Clears what a dead hub may have left in a cluster that this process has locked: a postmaster that still runs is
 * stopped. Any other `postmaster.pid` gets a number that no process has: Postgres would refuse to start while its
 * number belongs to a foreign process (usual in containers), and its "ready" would pass for that of the next start.
 * The file must stay, since its shared-memory key is how Postgres notices backends that outlived their postmaster.
 * Returns what was done, or null.
 */
export async function clearLeftovers(place: ClusterPlace): Promise<string | null> {
  const { stdout } = await runShell(CLEAR, {
    account: place.account,
    args: [join(place.folder, "data")],
  });
  return stdout.trim() === "" ? null : stdout.trim();
}

/** The last lines of a program's output, on one line. */
export function lastLines(text: string): string {
  return text.trim().split("\n").slice(-4).map((line) => line.trim()).join(" / ") || "no output";
}

async function removeAll(paths: string[]): Promise<void> {
  for (const path of paths) {
    await Deno.remove(path, { recursive: true }).catch((error) => {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    });
  }
}
