import { defineOperation, type Operation, Type } from "../operation.ts";
import { Limit, NAMESPACE, Path } from "./parameters.ts";
import { toPlace, type Workspace } from "./workspace.ts";
import type { WorkspaceFiles } from "./workspace_files.ts";

const DEFAULT_SHOWN = 200;
const MAX_SHOWN = 1000;

/** `file.list`: what is in a folder. */
export function createListFolder(workspace: Workspace, files: WorkspaceFiles): Operation {
  return defineOperation({
    namespace: NAMESPACE,
    name: "list",
    description: "Lists what is in a folder: files with their sizes, folders, links.",
    input: Type.Object({
      path: Type.Optional(Path("The folder, relative to the workspace; left out, the workspace")),
      limit: Limit(MAX_SHOWN, DEFAULT_SHOWN),
    }),
    effect: "pure",
    outside: "reads",
    inRunsOnly: true,
    async run({ path = ".", limit = DEFAULT_SHOWN }, { signal }) {
      const place = toPlace(workspace, path);
      const { entries, isCut } = await files.walk(place, { depth: 1, skip: [], signal });
      const lines = entries.slice(0, limit).map(({ type, path, size }) =>
        type === "file"
          ? `${path} (${size} bytes)`
          : type === "folder"
          ? `${path}/`
          : `${path} (${type})`
      );
      const all = isCut ? `more than ${entries.length}` : `${entries.length}`;
      return [...lines, `(${lines.length} of ${all} entries of ${place.shown})`]
        .join("\n");
    },
  });
}
