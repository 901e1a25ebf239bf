import type { Operation } from "../operation.ts";
import { createEditFile } from "./edit_file.ts";
import { createFindFiles } from "./find_files.ts";
import { createListFolder } from "./list_folder.ts";
import { createDeleteFile, createMoveFile, createStatFile } from "./manage_files.ts";
import { createReadFile } from "./read_file.ts";
import { createSearchFiles } from "./search_files.ts";
import type { Workspace } from "./workspace.ts";
import { WorkspaceFiles } from "./workspace_files.ts";
import { createWriteFile } from "./write_file.ts";

/** The operations on the files of a workspace, all in the namespace `file`. */
export function createFileOperations(workspace: Workspace): Operation[] {
  const files = new WorkspaceFiles(workspace);
  return [
    createReadFile(workspace, files),
    createWriteFile(workspace, files),
    createEditFile(workspace, files),
    createListFolder(workspace, files),
    createFindFiles(workspace, files),
    createSearchFiles(workspace, files),
    createStatFile(workspace, files),
    createMoveFile(workspace, files),
    createDeleteFile(workspace, files),
  ];
}
