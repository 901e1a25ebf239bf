import { HubError } from "../../core/error.ts";
import { runScript, type ScriptResult } from "../../process/run_script.ts";
import { DELETE, DISCARD, MOVE, READ, READ_MANY, STAT, WALK, WRITE } from "./scripts.ts";
import { folderOf, outside, type Place, quote, type Workspace } from "./workspace.ts";
import { type Entry, readEntries, readStat, type Stat } from "./walk_output.ts";

/** A file that was read whole, and the state that it was in. */
export interface ReadFile {
  bytes: Uint8Array;
  /** Tells this state of the file from all others. */
  state: string;
}

/** What is to be there before a file is written: anything, nothing, or a file in this state. */
export type Expected = "any" | "absent" | string;

/** Names of folders that are not looked into unless they are asked for. */
export const SKIPPED: readonly string[] = [".git", "node_modules"];

const MAX_WALK_BYTES = 8 * 1024 * 1024;
/** Of many files at a time, which may grow between being listed and being read. */
const MAX_READ_BYTES = 32 * 1024 * 1024;
const SMALL_BYTES = 64 * 1024;
const TIMEOUT_MS = 20_000;

/** Files of a workspace, by scripts that reach nothing else however files and links are exchanged meanwhile. */
export class WorkspaceFiles {
  readonly #workspace: Workspace;
  readonly #busy = new Map<string, Promise<unknown>>();

  constructor(workspace: Workspace) {
    this.#workspace = workspace;
  }

  /** Reads a file whole. Rejects with `not_found`, and `invalid_request` for what is no file or too large. */
  async read(place: Place, signal: AbortSignal): Promise<ReadFile> {
    const { maxFileBytes } = this.#workspace;
    const { stdout } = await this.#run(READ, place, {
      args: [place.folder, place.name, String(maxFileBytes + 1)],
      maxBytes: maxFileBytes + SMALL_BYTES,
      signal,
    });
    const end = stdout.indexOf(10);
    const bytes = stdout.subarray(end + 1);
    if (bytes.length > maxFileBytes) {
      throw new HubError(
        "invalid_request",
        `${quote(place.shown)} has more than the ${maxFileBytes} bytes that are read of a file`,
      );
    }
    return { bytes, state: new TextDecoder().decode(stdout.subarray(0, end)) };
  }

  /** Reads files, `maxBytes` of each; gives the index in `paths`, relative to the root, and the bytes. */
  async readMany(
    root: string,
    { paths, maxBytes, signal }: {
      paths: readonly string[];
      maxBytes: number;
      signal: AbortSignal;
    },
  ): Promise<{ index: number; bytes: Uint8Array }[]> {
    const mark = this.#workspace.nonce();
    const { stdout } = await this.#run(READ_MANY, { root, shown: "." }, {
      args: [String(maxBytes), mark, ...paths],
      maxBytes: Math.min(paths.length * (maxBytes + SMALL_BYTES), MAX_READ_BYTES),
      signal,
    });
    return splitAt(stdout, mark);
  }

  /** Writes a file as a whole: whoever reads it meanwhile gets the old one or the new one. */
  async write(
    place: Place,
    { bytes, expected, signal }: { bytes: Uint8Array; expected: Expected; signal: AbortSignal },
  ): Promise<void> {
    if (bytes.length > this.#workspace.maxFileBytes) {
      throw new HubError(
        "invalid_request",
        `${bytes.length} bytes are more than the ${this.#workspace.maxFileBytes} that a file may have`,
      );
    }
    const made = `.loophub-${this.#workspace.nonce()}.tmp`;
    try {
      await this.#run(WRITE, place, {
        args: [place.folder, place.name, expected, String(bytes.length), made],
        input: bytes,
        signal,
      });
    } catch (error) {
      await this.#discard(place, made);
      throw error;
    }
  }

  /** A script that was ended has not cleaned up behind itself. */
  async #discard(place: Place, made: string): Promise<void> {
    const { signal } = new AbortController();
    await this.#run(DISCARD, place, { args: [place.folder, made], signal }).catch(() => {});
  }

  /** What is in a folder, `depth` levels deep. Sorted by path; `isCut` when there is more than could be read. */
  async walk(
    place: Place,
    { depth, skip, signal }: { depth: number; skip: readonly string[]; signal: AbortSignal },
  ): Promise<{ entries: Entry[]; isCut: boolean }> {
    const mark = this.#workspace.nonce();
    const { stdout, isCut } = await this.#run(WALK, place, {
      args: [folderOf(place), String(depth), mark, ...skip],
      maxBytes: MAX_WALK_BYTES,
      signal,
    });
    return { entries: readEntries(new TextDecoder().decode(stdout), mark), isCut };
  }

  /** What stands at a place; of a link, the link itself. */
  async stat(place: Place, signal: AbortSignal): Promise<Stat> {
    const args = [place.folder, place.name];
    const { stdout } = await this.#run(STAT, place, { args, signal });
    return readStat(new TextDecoder().decode(stdout));
  }

  /** Moves a file, a folder or a link itself. */
  async move(
    from: Place,
    { to, overwrite, signal }: { to: Place; overwrite: boolean; signal: AbortSignal },
  ): Promise<void> {
    const args = [from.folder, from.name, to.folder, to.name, overwrite ? "1" : "0"];
    await this.#run(MOVE, { ...from, to: to.shown }, { args, signal });
  }

  /** Removes a file, a link itself, or a folder. */
  async delete(
    place: Place,
    { recursive, signal }: { recursive: boolean; signal: AbortSignal },
  ): Promise<void> {
    const args = [place.folder, place.name, recursive ? "1" : "0"];
    await this.#run(DELETE, place, { args, signal });
  }

  /** Does `work` when no other work on this file is under way here. */
  async alone<T>(place: Place, work: () => Promise<T>): Promise<T> {
    const key = `${place.root}/${folderOf(place)}`;
    const before = this.#busy.get(key) ?? Promise.resolve();
    const done = before.then(work, work);
    const settled = done.catch(() => {});
    this.#busy.set(key, settled);
    try {
      return await done;
    } finally {
      if (this.#busy.get(key) === settled) this.#busy.delete(key);
    }
  }

  async #run(
    script: string,
    place: { root: string; shown: string; to?: string },
    options: {
      args: readonly string[];
      input?: Uint8Array;
      maxBytes?: number;
      signal: AbortSignal;
    },
  ): Promise<ScriptResult> {
    const { isLimited, isChecked, within, path, clock, timeoutMs = TIMEOUT_MS } = this.#workspace;
    const { args, input, maxBytes = SMALL_BYTES, signal } = options;
    const result = await runScript({
      script,
      args: [place.root, !isLimited ? "0" : isChecked ? "1" : "names", ...args],
      env: { PATH: path, LC_ALL: "C" },
      within,
      maxBytes,
      timeoutMs,
      signal,
      clock,
      ...(input === undefined ? {} : { input }),
    });
    if (result.code !== 0 && !result.isCut) throw toError(result.stderr, place);
    return result;
  }
}

function toError(stderr: string, { shown, to }: { shown: string; to?: string }): HubError {
  const why = stderr.trim().split("\n").at(-1) ?? "";
  const what = quote(shown);
  const invalid = (text: string) => new HubError("invalid_request", text);
  switch (why) {
    case "missing":
      return new HubError("not_found", `There is nothing at ${what}`);
    case "broken-link":
      return new HubError("not_found", `${what} is a link that leads to nothing`);
    case "outside":
      return outside(shown);
    case "not-a-folder":
      return invalid(`A part of ${what} is no folder`);
    case "folder":
      return invalid(`${what} is a folder, wanted a file`);
    case "special":
      return invalid(`${what} is a device, a pipe or a socket, wanted a regular file`);
    case "link":
      return invalid(`${what} is a symbolic link: write to the file that it leads to by its name`);
    case "linked":
      return invalid(`${what} has several names (hard links), one of which may be elsewhere`);
    case "exists":
      return new HubError("conflict", `There is something at ${quote(to ?? shown)} already`);
    case "changed":
      return new HubError("conflict", `${what} was changed in the meantime: read it again`);
    case "not-empty":
      return new HubError(
        "conflict",
        `${what} is a folder that is not empty: recursive removes it`,
      );
    case "no-root":
      return new HubError("not_found", "The folder of the workspace is not there");
    case "unchecked":
      return new HubError(
        "permission_denied",
        `This system cannot tell what was opened as ${what}, so it was not used`,
      );
    case "full":
    case "cut":
      return new HubError("internal_error", `${what} could not be written whole; it is as it was`);
    default:
      return new HubError("permission_denied", `The system refused it for ${what}`);
  }
}

/** Splits what READ_MANY gave at its marks. */
function splitAt(output: Uint8Array, mark: string): { index: number; bytes: Uint8Array }[] {
  const sign = new TextEncoder().encode(mark);
  const found: { index: number; bytes: Uint8Array }[] = [];
  let open: { index: number; from: number } | null = null;
  for (let at = find(output, sign, 0); at >= 0; at = find(output, sign, at + 1)) {
    if (open !== null) found.push({ index: open.index, bytes: output.subarray(open.from, at - 1) });
    const end = output.indexOf(10, at);
    const number = new TextDecoder().decode(output.subarray(at + sign.length, end));
    open = { index: Number(number) - 1, from: end + 1 };
  }
  return found;
}

function find(bytes: Uint8Array, wanted: Uint8Array, from: number): number {
  const first = wanted[0] ?? 0;
  for (let at = bytes.indexOf(first, from); at >= 0; at = bytes.indexOf(first, at + 1)) {
    let same = 1;
    while (same < wanted.length && bytes[at + same] === wanted[same]) same++;
    if (same === wanted.length) return at;
  }
  return -1;
}
