import { HubError } from "../../core/error.ts";
import { defineOperation, type Operation, Type } from "../operation.ts";
import { contentHash } from "./file_content.ts";
import { Hash, NAMESPACE, Path } from "./parameters.ts";
import { quote, toPlace, type Workspace } from "./workspace.ts";
import type { Expected, WorkspaceFiles } from "./workspace_files.ts";

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
    async run({ path, content, encoding = "utf-8", overwrite = true, hash }, { signal }) {
      const place = toPlace(workspace, path);
      const bytes = encoding === "base64" ? fromBase64(content) : new TextEncoder().encode(content);
      await files.alone(place, async () => {
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

function fromBase64(content: string): Uint8Array {
  try {
    return Uint8Array.fromBase64(content);
  } catch {
    throw new HubError("invalid_request", "The content is no base64");
  }
}
