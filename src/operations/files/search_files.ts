import type { Clock } from "../../core/clock.ts";
import { HubError } from "../../core/error.ts";
import { defineOperation, type Operation, Type } from "../operation.ts";
import { readContent } from "./file_content.ts";
import { keepFitting, rootPath, shownPath, walkFiles } from "./find_files.ts";
import { pathMatcher } from "./glob_pattern.ts";
import { type LineExpression, lineExpression } from "./line_expression.ts";
import { Limit, NAMESPACE, Path } from "./parameters.ts";
import { Turns } from "./turns.ts";
import { type Place, quote, toPlace, type Workspace } from "./workspace.ts";
import type { WorkspaceFiles } from "./workspace_files.ts";
import type { Entry } from "./walk_output.ts";

const DEFAULT_SHOWN = 100;
const MAX_SHOWN = 1000;
const MAX_CONTEXT = 20;
/** Files that one script reads. */
const BATCH = 100;
const BATCH_BYTES = 8 * 1024 * 1024;
const MAX_FILE_BYTES = 2 * 1024 * 1024;
/** What one search reads in all. */
const MAX_BYTES = 64 * 1024 * 1024;
const SHOWN_CHARS = 300;
const MATCHING_MS = 10_000;

/** `file.grep`: lines by regular expression. */
export function createSearchFiles(workspace: Workspace, files: WorkspaceFiles): Operation {
  return defineOperation({
    namespace: NAMESPACE,
    name: "grep",
    description:
      "Finds lines by a regular expression (RE2: no look-around and no back references) in the files of a folder, " +
      "or in one file. Shows path, number of the line and the line. Binary files, large ones, " +
      "and those in .git and node_modules are left out.",
    input: Type.Object({
      pattern: Type.String({ minLength: 1, maxLength: 1000, description: "The expression" }),
      path: Type.Optional(Path("A folder or a file; left out, the workspace")),
      include: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 500,
          description: "Only files whose paths fit this pattern, such as *.{ts,tsx}",
        }),
      ),
      ignoreCase: Type.Optional(
        Type.Boolean({
          description: "Whether upper and lower case are the same; false when left out",
        }),
      ),
      context: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: MAX_CONTEXT,
          description: "Lines to show before and after each; 0 when left out",
        }),
      ),
      filesOnly: Type.Optional(Type.Boolean({ description: "Whether only paths are shown" })),
      limit: Limit(MAX_SHOWN, DEFAULT_SHOWN),
    }),
    effect: "pure",
    outside: "reads",
    inRunsOnly: true,
    async run(input, { signal, clock }) {
      const { pattern, path = ".", include, ignoreCase = false, limit = DEFAULT_SHOWN } = input;
      const expression = await lineExpression(pattern, { ignoreCase });
      const isIncluded = include === undefined ? null : pathMatcher(include);
      const place = toPlace(workspace, path);
      const found = await entriesOf(files, place, signal);
      const small = found.entries.filter(({ size }) => size <= MAX_FILE_BYTES);
      const entries = isIncluded === null
        ? small
        : await keepFitting(small, isIncluded, { clock, signal });
      const { context = 0, filesOnly = false } = input;
      const search = new Search(expression, { context, filesOnly, limit, clock, signal });
      for (let at = 0; at < entries.length && !search.isOver;) {
        const batch = takeBatch(entries, at);
        const paths = batch.map((entry) => rootPath(found.place, entry));
        const read = await files.readMany(place.root, { paths, maxBytes: MAX_FILE_BYTES, signal });
        for (const { index, bytes } of read) {
          const entry = batch[index];
          if (entry !== undefined) await search.look(shownPath(found.place, entry), bytes);
        }
        at += batch.length;
      }
      const cut = found.isCut
        ? "; there are more files than could be looked at, take a folder"
        : "";
      return [...search.lines, `(${search.describe(entries.length)}${cut})`].join("\n");
    },
  });
}

/** The files below a folder, or the one that the path leads to. */
async function entriesOf(
  files: WorkspaceFiles,
  place: Place,
  signal: AbortSignal,
): Promise<{ place: Place; entries: Entry[]; isCut: boolean }> {
  const stat = place.name === "." ? null : await files.stat(place, signal);
  if (stat?.type !== "file") return { place, ...await walkFiles(files, place, signal) };
  const shown = place.shown.includes("/")
    ? place.shown.slice(0, place.shown.lastIndexOf("/"))
    : ".";
  const { folder: name } = place;
  if (stat.size > MAX_FILE_BYTES) {
    throw new HubError(
      "invalid_request",
      `${
        quote(place.shown)
      } has ${stat.size} bytes, more than the ${MAX_FILE_BYTES} that are searched`,
    );
  }
  const entry = { ...stat, path: place.name };
  return { place: { ...place, folder: ".", name, shown }, entries: [entry], isCut: false };
}

function takeBatch(entries: readonly Entry[], from: number): Entry[] {
  const batch: Entry[] = [];
  let bytes = 0;
  for (const entry of entries.slice(from, from + BATCH)) {
    bytes += entry.size;
    if (batch.length > 0 && bytes > BATCH_BYTES) break;
    batch.push(entry);
  }
  return batch;
}

interface SearchOptions {
  context: number;
  filesOnly: boolean;
  limit: number;
  clock: Clock;
  signal: AbortSignal;
}

/** Looks through files one after the other and lets others have their turn meanwhile. */
class Search {
  readonly lines: string[] = [];
  readonly #expression: LineExpression;
  readonly #options: SearchOptions;
  readonly #turns: Turns;
  #found = 0;
  #files = 0;
  #bytes = 0;
  #hasLong = false;

  constructor(expression: LineExpression, options: SearchOptions) {
    this.#expression = expression;
    this.#options = options;
    this.#turns = new Turns(options);
  }

  get isOver(): boolean {
    return this.#found >= this.#options.limit || this.#bytes > MAX_BYTES ||
      this.#turns.spentMs > MATCHING_MS;
  }

  /** Looks through one file. */
  async look(path: string, bytes: Uint8Array): Promise<void> {
    if (this.isOver) return;
    this.#bytes += bytes.length;
    const content = readContent(bytes);
    if (content.kind !== "text") return;
    this.#files++;
    const { context, filesOnly, limit } = this.#options;
    const { maxChars } = this.#expression;
    const lines = content.text.split("\n");
    this.#turns.begin();
    let shownTo = 0;
    for (const [at, line] of lines.entries()) {
      if (this.#turns.isOver) {
        await this.#turns.pass();
        if (this.isOver) return;
      }
      this.#hasLong ||= line.length > maxChars;
      if (!this.#expression.isIn(line.slice(0, maxChars))) continue;
      this.#found++;
      if (filesOnly) {
        this.lines.push(path);
        break;
      }
      const from = Math.max(shownTo, at - context);
      if (context > 0 && from > shownTo && shownTo > 0) this.lines.push("--");
      for (let near = from; near <= Math.min(lines.length - 1, at + context); near++) {
        const sign = near === at ? ":" : "-";
        this.lines.push(`${path}${sign}${near + 1}${sign} ${shorten(lines[near] ?? "")}`);
        shownTo = near + 1;
      }
      if (this.#found >= limit) break;
    }
    this.#turns.end();
  }

  describe(files: number): string {
    const { limit, filesOnly } = this.#options;
    const { maxChars } = this.#expression;
    const long = this.#hasLong ? `; of lines the first ${maxChars} characters were looked at` : "";
    const what = `${this.#found} ${
      filesOnly ? "files" : "lines"
    } found in ${this.#files} of ${files} files${long}`;
    if (this.#found >= limit) return `${what}; there may be more, raise limit or narrow the search`;
    return this.isOver ? `${what}; stopped there, narrow the search` : what;
  }
}

function shorten(line: string): string {
  const text = line.replace(/\r$/, "");
  return text.length <= SHOWN_CHARS ? text : `${text.slice(0, SHOWN_CHARS).toWellFormed()}…`;
}
