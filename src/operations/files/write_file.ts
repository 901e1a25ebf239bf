import { HubError } from "../../core/error.ts";
import { defineOperation, type Operation, Type } from "../operation.ts";
import type { ToolPreview } from "../../core/tool.ts";
import { unifiedDiff } from "../unified_diff.ts";
import { contentHash, readContent } from "./file_content.ts";
import { Hash, NAMESPACE, Path } from "./parameters.ts";
import { assertShown, contentState, readShown } from "./shown_state.ts";
import { type Place, quote, toPlace, type Workspace } from "./workspace.ts";
import type { Expected, WorkspaceFiles } from "./workspace_files.ts";

const MAX_DIFF_BYTES = 32 * 1024;

/** `file.write`: a whole file, new or in the place of what it was. */
export function createWriteFile(workspace: Workspace, files: WorkspaceFiles): Operation {
  return defineOperation({
    namespace: NAMESPACE,
    name: "write",
    description:
      "Writes a whole file; folders that are missing are made. What was in the file is replaced: " +
      "use file.edit to change parts of it. Nobody ever sees it half written.",
    input: Type.Object({
      path: Path("The file, relative to the workspace"),
      content: Type.String({ description: "All that the file is to have" }),
      encoding: Type.Optional(
        Type.Union([Type.Literal("utf-8"), Type.Literal("base64")], {
          description: "How content is written here; base64 is for what is no text",
        }),
      ),
      overwrite: Type.Optional(
        Type.Boolean({
          description: "Whether an existing file may be replaced; true when left out",
        }),
      ),
      hash: Hash,
    }),
    effect: "idempotent",
    risk: "medium",
    inRunsOnly: true,
    async preview({ path, content, encoding, overwrite = true, hash }, { signal }) {
      const place = toPlace(workspace, path);
      const bytes = toBytes(content, encoding);
      const { file, state } = await readShown(files, { place, signal });
      if (file !== null && !overwrite) {
        throw new HubError("conflict", `There is something at ${quote(place.shown)} already`);
      }
      if (file === null && hash !== undefined) {
        throw new HubError("not_found", `There is nothing at ${quote(place.shown)}`);
      }
      if (file !== null) assertHash(place.shown, { bytes: file.bytes, hash });
      const [old, now] = [file === null ? null : readContent(file.bytes), readContent(bytes)];
      const isText = (old === null || old.kind === "text") && now.kind === "text";
      const before = old?.kind === "text" ? old.text : null;
      const preview: ToolPreview = isText ? previewOf(place, { before, after: now.text }) : {
        kind: "text",
        text: `Writes ${bytes.length} bytes to ${place.shown}, hash ${contentHash(bytes)}, ${
          file === null ? "a new file" : `in the place of ${file.bytes.length}`
        }; one of them is no text`,
      };
      return { preview, state };
    },
    async run({ path, content, encoding, overwrite = true, hash }, { signal, shownState }) {
      const place = toPlace(workspace, path);
      const bytes = toBytes(content, encoding);
      await files.alone(place, async () => {
        if (shownState !== undefined) {
          const { file, state: found } = await readShown(files, { place, signal });
          // What was written already, and is made sure of after a takeover, is not written over.
          if (found === contentState(bytes)) return;
          assertShown(place.shown, { found, wanted: shownState });
          const expected = file === null ? "absent" : file.state;
          if (file !== null) assertHash(place.shown, { bytes: file.bytes, hash });
          return await files.write(place, { bytes, expected, signal });
        }
        const expected: Expected = hash === undefined
          ? (overwrite ? "any" : "absent")
          : await stateOf(files, { place, hash, signal });
        await files.write(place, { bytes, expected, signal });
      });
      return `Wrote ${bytes.length} bytes to ${place.shown}; hash ${contentHash(bytes)}`;
    },
  });
}

/** The state of a file whose content is the one that was read. Rejects with `conflict` for another one. */
export async function stateOf(
  files: WorkspaceFiles,
  { place, hash, signal }: {
    place: Parameters<WorkspaceFiles["read"]>[0];
    hash: string;
    signal: AbortSignal;
  },
): Promise<string> {
  const { bytes, state } = await files.read(place, signal);
  assertHash(place.shown, { bytes, hash });
  return state;
}

/** Throws `conflict` for a content that is not the one that was read. */
export function assertHash(
  shown: string,
  { bytes, hash }: { bytes: Uint8Array; hash: string | undefined },
): void {
  if (hash === undefined) return;
  const found = contentHash(bytes);
  if (found === hash) return;
  throw new HubError(
    "conflict",
    `${
      quote(shown)
    } was changed since it was read: its hash is ${found}, not ${hash}. Read it again`,
  );
}

/** What writing a text over another one changes, null being a file that is not there. */
export function previewOf(
  { shown: path }: Place,
  { before, after }: { before: string | null; after: string },
): ToolPreview {
  const { diff, isCut } = unifiedDiff(before, after, { path, maxBytes: MAX_DIFF_BYTES });
  if (diff === "") return { kind: "text", text: `Leaves ${path} as it is` };
  return { kind: "diff", path, diff, ...(isCut ? { isCut } : {}) };
}

function toBytes(content: string, encoding: "utf-8" | "base64" = "utf-8"): Uint8Array {
  if (encoding === "utf-8") return new TextEncoder().encode(content);
  try {
    return Uint8Array.fromBase64(content);
  } catch {
    throw new HubError("invalid_request", "The content is no base64");
  }
}
