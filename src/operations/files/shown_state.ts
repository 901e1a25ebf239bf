import { createHash } from "node:crypto";
import { HubError, toHubError } from "../../core/error.ts";
import { contentHash } from "./file_content.ts";
import { type Place, quote, type Workspace } from "./workspace.ts";
import type { ReadFile, WorkspaceFiles } from "./workspace_files.ts";

/** Stands for a place where there is nothing. */
const ABSENT = "absent";
/** Levels of a folder that are looked at. */
const MAX_DEPTH = 64;

/** What stands at a place, in words for people, and told from everything else that could stand there. */
export interface ShownThing {
  words: string;
  state: string;
}

/** Tells a content from all others. */
export function contentState(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** A file that may not be there, with the state it is shown in. */
export async function readShown(
  files: WorkspaceFiles,
  { place, signal }: { place: Place; signal: AbortSignal },
): Promise<{ file: ReadFile | null; state: string }> {
  try {
    const file = await files.read(place, signal);
    return { file, state: contentState(file.bytes) };
  } catch (error) {
    if (toHubError(error).code !== "not_found") throw error;
    return { file: null, state: ABSENT };
  }
}

/** Says what stands at a place: the content of a file counts, of a large one and of a folder sizes and times. */
export async function lookAt(
  files: WorkspaceFiles,
  { place, workspace, signal }: { place: Place; workspace: Workspace; signal: AbortSignal },
): Promise<ShownThing> {
  const { size, ...stat } = await files.stat(place, signal);
  const facts = JSON.stringify({ size, ...stat });
  if (stat.type === "file" && size <= workspace.maxFileBytes) {
    const { bytes } = await files.read(place, signal);
    const words = `a file of ${bytes.length} bytes, hash ${contentHash(bytes)}`;
    return { words, state: contentState(bytes) };
  }
  if (stat.type === "file") return { words: `a file of ${size} bytes`, state: facts };
  if (stat.type === "link") {
    return { words: `a link to ${quote(stat.target ?? "")}`, state: `link ${stat.target}` };
  }
  if (stat.type === "other") return { words: "a device, a pipe or a socket", state: facts };
  const { entries, isCut } = await files.walk(place, { depth: MAX_DEPTH, skip: [], signal });
  const inside = entries.filter(({ type }) => type !== "folder");
  const bytes = inside.reduce((sum, entry) => sum + entry.size, 0);
  const words = inside.length === 0
    ? "an empty folder"
    : `a folder with ${isCut ? "more than " : ""}${inside.length} files of ${bytes} bytes`;
  const state = createHash("sha256").update(JSON.stringify(entries)).digest("hex");
  return { words, state };
}

/** The same for a place where there may be nothing. */
export async function lookAtTarget(
  ...[files, options]: Parameters<typeof lookAt>
): Promise<ShownThing | null> {
  try {
    return await lookAt(files, options);
  } catch (error) {
    if (toHubError(error).code !== "not_found") throw error;
    return null;
  }
}

/** Throws `conflict` when what stands there is not what whoever approved the call was shown; without `wanted` nobody was. */
export function assertShown(
  shown: string,
  { found, wanted }: { found: string; wanted: string | undefined },
): void {
  if (wanted === undefined || found === wanted) return;
  throw new HubError(
    "conflict",
    `${
      quote(shown)
    } was changed since a person was asked, who approved something else: nothing was done. Look at it and call again`,
  );
}
