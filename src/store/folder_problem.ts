import { HubError } from "../core/error.ts";

/** What the operating system says of a folder that cannot be used, by the code of the error. */
const PROBLEMS: Readonly<Record<string, string>> = {
  ENOSPC: "there is no space left on its disk",
  EDQUOT: "the disk quota of its user is used up",
  EACCES: "this user may not read and write there",
  EPERM: "this user may not read and write there",
  EROFS: "its file system is read-only",
  ENOTDIR: "it, or a folder above it, is a file",
  EEXIST: "it is a file",
  ELOOP: "its symbolic links go in a circle",
  ENAMETOOLONG: "its path is too long",
  EIO: "its disk fails",
};

/**
 * The error as an operator can act on it: `invalid_configuration` that names the data folder and its problem. Any other
 * error is given back as it is.
 */
export function toFolderProblem(error: unknown, dataDir: string): unknown {
  if (!(error instanceof Error) || error instanceof HubError) return error;
  const problem = PROBLEMS["code" in error ? String(error.code) : codeOf(error)];
  if (problem === undefined) return error;
  return new HubError(
    "invalid_configuration",
    `The data folder ${dataDir} cannot be used: ${problem}. Mend that, or name another folder (database.dataDir or LOOPHUB_DATA_DIR)`,
    { cause: error },
  );
}

function codeOf(error: Error): string {
  if (error instanceof Deno.errors.PermissionDenied) return "EACCES";
  return error instanceof Deno.errors.NotADirectory ? "ENOTDIR" : "";
}
