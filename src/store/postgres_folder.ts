import { dirname, join } from "node:path";
import { HubError } from "../core/error.ts";
import { isJsonObject } from "../core/json.ts";
import type { Account } from "./shell.ts";

/** A data folder that this process holds until it releases it or dies. */
export interface FolderLock {
  release(): void;
}

/**
 * Takes the data folder for this process. The lock is the operating system's (`flock`), so it dies with the process.
 * Throws `invalid_configuration` that names the holder when another hub has it.
 */
export async function lockFolder(dataDir: string): Promise<FolderLock> {
  const path = join(dataDir, "lock");
  const file = await Deno.open(path, { create: true, read: true, write: true, mode: 0o600 });
  if (!await file.tryLock(true)) {
    file.close();
    const holder = await readHolder(path);
    throw new HubError(
      "invalid_configuration",
      `The data folder ${dataDir} is in use by another hub (process ${holder}): stop that one, ` +
        "give this one another folder (database.dataDir or LOOPHUB_DATA_DIR), or let both share a Postgres (DATABASE_URL)",
      { details: { dataDir, holder } },
    );
  }
  await file.truncate();
  await file.write(new TextEncoder().encode(`${JSON.stringify({ pid: Deno.pid })}\n`));
  return { release: () => file.close() };
}

/** Process id in a lock file; the holder writes it right after it has the lock, so it may be missing for a moment. */
async function readHolder(path: string): Promise<string> {
  try {
    const parsed: unknown = JSON.parse(await Deno.readTextFile(path));
    if (isJsonObject(parsed) && typeof parsed["pid"] === "number") return String(parsed["pid"]);
  } catch {
    // An empty or half-written file says nothing about its holder.
  }
  return "unknown";
}

/** A fixed place for clusters whose data folder lies where the user that Postgres runs as cannot go. */
const SHARED_PLACE = "/var/lib/loophub";

/**
 * The folder for Postgres' own files: the data folder, or `/var/lib/loophub/<hash of its path>` when `account` may
 * not pass through to it (a folder under `/root`, say).
 */
export async function chooseClusterFolder(
  dataDir: string,
  account: Account | null,
): Promise<{ folder: string; moved: boolean }> {
  if (account === null || await canReach(dataDir, account)) {
    return { folder: dataDir, moved: false };
  }
  const bytes = new Uint8Array(
    await crypto.subtle.digest("SHA-256", new TextEncoder().encode(dataDir)),
  );
  const hash = Array.from(bytes.subarray(0, 6), (byte) => byte.toString(16).padStart(2, "0"));
  const folder = join(SHARED_PLACE, hash.join(""));
  await Deno.mkdir(folder, { recursive: true, mode: 0o755 });
  for (const path of [SHARED_PLACE, folder]) await Deno.chmod(path, 0o755);
  return { folder, moved: true };
}

async function canReach(path: string, account: Account): Promise<boolean> {
  for (let folder = path;; folder = dirname(folder)) {
    const { mode, uid, gid } = await Deno.stat(folder);
    const bits = mode ?? 0;
    const mayPass = uid === account.uid
      ? bits & 0o100
      : gid === account.gid
      ? bits & 0o010
      : bits & 0o001;
    if (mayPass === 0) return false;
    if (folder === dirname(folder)) return true;
  }
}
