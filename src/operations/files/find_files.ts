import { defineOperation, type Operation, Type } from "../operation.ts";
import type { Clock } from "../../core/clock.ts";
import { type PathMatcher, pathMatcher } from "./glob_pattern.ts";
import { Limit, NAMESPACE, Path } from "./parameters.ts";
import { folderOf, type Place, toPlace, type Workspace } from "./workspace.ts";
import { Turns } from "./turns.ts";
import { SKIPPED, type WorkspaceFiles } from "./workspace_files.ts";
import type { Entry } from "./walk_output.ts";

const DEFAULT_SHOWN = 200;
const MAX_SHOWN = 1000;
const MAX_DEPTH = 64;

/** `file.glob`: files by pattern. */
export function createFindFiles(workspace: Workspace, files: WorkspaceFiles): Operation {
  return defineOperation({
    namespace: NAMESPACE,
    name: "glob",
    description:
      "Finds files by a pattern over their paths: * is any text within a name, ** any folders, ? one character, " +
      "{a,b} one of several. A pattern without a slash fits names in every folder, such as *.ts. " +
      `What is in ${SKIPPED.join(" and ")} is found only when path leads there.`,
    input: Type.Object({
      pattern: Type.String({ minLength: 1, maxLength: 500, description: "Such as src/**/*.ts" }),
      path: Type.Optional(Path("The folder to look in; left out, the workspace")),
      limit: Limit(MAX_SHOWN, DEFAULT_SHOWN),
    }),
    effect: "pure",
    outside: "reads",
    inRunsOnly: true,
    async run({ pattern, path = ".", limit = DEFAULT_SHOWN }, { signal, clock }) {
      const place = toPlace(workspace, path);
      const matches = pathMatcher(pattern);
      const { entries, isCut } = await walkFiles(files, place, signal);
      const found = await keepFitting(entries, matches, { clock, signal });
      const shown = found.slice(0, limit).map((entry) => shownPath(place, entry));
      const cut = isCut ? "; there are more files than could be looked at, take a folder" : "";
      return [...shown, `(${shown.length} of ${found.length} files that fit${cut})`].join("\n");
    },
  });
}

/** All files below a folder, links not followed. */
export async function walkFiles(
  files: WorkspaceFiles,
  place: Place,
  signal: AbortSignal,
): Promise<{ entries: Entry[]; isCut: boolean }> {
  const { entries, isCut } = await files.walk(place, { depth: MAX_DEPTH, skip: SKIPPED, signal });
  return { entries: entries.filter(({ type }) => type === "file"), isCut };
}

/** The entries whose paths fit; others have their turn meanwhile. */
export async function keepFitting(
  entries: readonly Entry[],
  matches: PathMatcher,
  options: { clock: Clock; signal: AbortSignal },
): Promise<Entry[]> {
  const turns = new Turns(options);
  const kept: Entry[] = [];
  for (const entry of entries) {
    if (turns.isOver) await turns.pass();
    if (matches(entry.path)) kept.push(entry);
  }
  return kept;
}

/** The path of an entry as it can be given to other operations. */
export function shownPath(place: Place, { path }: Pick<Entry, "path">): string {
  return place.shown === "." ? path : `${place.shown}/${path}`;
}

/** The path of an entry relative to the root of its place. */
export function rootPath(place: Place, { path }: Pick<Entry, "path">): string {
  const folder = folderOf(place);
  return folder === "." ? path : `${folder}/${path}`;
}
