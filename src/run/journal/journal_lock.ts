import { join } from "node:path";

/** Held by the process that writes the files of a name, or books them: the kernel frees it when the process ends. */
export interface JournalLock {
  /** Lets it go and removes its file. */
  remove(): Promise<void>;
  /** Lets it go; its files are another process's to book. */
  leave(): void;
}

const LOCK = ".lock";
const SEGMENT = ".journal";

/** Path of the `number`-th file of a name. */
export function segmentPath(dir: string, name: string, number: number): string {
  return join(dir, `${name}-${String(number).padStart(6, "0")}${SEGMENT}`);
}

/** Takes a lock of a new name. It has its name once it is locked, so that no one books files that are being begun. */
export async function createLock(dir: string, name: string): Promise<JournalLock> {
  const path = join(dir, name + LOCK);
  const begun = `${path}.new`;
  const file = await Deno.open(begun, { write: true, createNew: true, mode: 0o600 });
  try {
    if (!await file.tryLock(true)) throw new Error(`${begun} is locked by another process`);
    await Deno.rename(begun, path);
  } catch (error) {
    file.close();
    await Deno.remove(begun).catch(() => {});
    throw error;
  }
  return lockOf(file, path);
}

/** Takes the locks of processes that are gone, one at a time: `book` gets the paths of its files, oldest first. */
export async function eachLeftJournal(
  dir: string,
  book: (paths: readonly string[], lock: JournalLock) => Promise<void>,
): Promise<void> {
  const names: string[] = [];
  for await (const { name, isFile } of Deno.readDir(dir)) if (isFile) names.push(name);
  names.sort();
  for (const lockName of names.filter((name) => name.endsWith(LOCK))) {
    const path = join(dir, lockName);
    const file = await Deno.open(path, { read: true, write: true }).catch(() => null);
    if (file === null) continue;
    if (!await file.tryLock(true)) {
      file.close();
      continue;
    }
    const prefix = `${lockName.slice(0, -LOCK.length)}-`;
    const own = names.filter((name) => name.startsWith(prefix) && name.endsWith(SEGMENT));
    await book(own.map((name) => join(dir, name)), lockOf(file, path));
  }
}

function lockOf(file: Deno.FsFile, path: string): JournalLock {
  let isOpen = true;
  const leave = () => {
    if (isOpen) file.close();
    isOpen = false;
  };
  return {
    leave,
    async remove() {
      await Deno.remove(path).catch(() => {});
      leave();
    },
  };
}
