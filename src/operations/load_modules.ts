import { isAbsolute, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { HubError } from "../core/error.ts";
import { isOperation, type Operation } from "./operation.ts";

/** Where modules are looked for, and how they are imported. */
export interface LoadModulesOptions {
  /** Folder of the configuration file; relative paths start here. */
  folder: string;
  /** Imports one `file:` URL. The runtime's own import by default. */
  importModule?: (url: string) => Promise<unknown>;
  /**
   * Called for a module that cannot be imported with the permissions of this process, and is left out then. It is a
   * problem like any other where this is left out.
   */
  onDenied?: (name: string, why: string) => void;
}

/** Namespace of the hub's own operations. */
export const HUB_NAMESPACE = "hub";

/**
 * Loads the operations of the modules a configuration names: paths or `file:` URLs, each default-exporting one
 * operation or an array of them. Modules run with all the hub's rights, so nothing but files is accepted.
 * Throws one `invalid_configuration` that lists every problem with its module.
 */
export async function loadOperationModules(
  modules: readonly string[],
  options: LoadModulesOptions,
): Promise<Operation[]> {
  const importModule = options.importModule ?? ((url: string) => import(url));
  const problems: string[] = [];
  const owners = new Map<string, string>();
  const operations: Operation[] = [];
  for (const name of modules) {
    const found = await loadOne(name, { ...options, importModule });
    if (typeof found === "string") {
      problems.push(`${name}: ${found}`);
      continue;
    }
    for (const operation of found) {
      const owner = owners.get(operation.fullName);
      if (operation.namespace === HUB_NAMESPACE) {
        problems.push(`${name}: ${operation.fullName} takes the namespace of the hub itself`);
      } else if (owner !== undefined) {
        problems.push(`${name}: ${operation.fullName} is defined already, in ${owner}`);
      } else {
        owners.set(operation.fullName, name);
        operations.push(operation);
      }
    }
  }
  if (problems.length === 0) return operations;
  throw new HubError(
    "invalid_configuration",
    `The operation modules cannot be used:\n${problems.join("\n")}`,
    { details: { problems } },
  );
}

async function loadOne(
  name: string,
  options: LoadModulesOptions & Required<Pick<LoadModulesOptions, "importModule">>,
): Promise<Operation[] | string> {
  const url = toFileUrl(name, options.folder);
  if (url === null) return "only paths and file: URLs are loaded";
  let module: unknown;
  try {
    module = await options.importModule(url);
  } catch (error) {
    if (options.onDenied !== undefined && error instanceof Deno.errors.NotCapable) {
      options.onDenied(name, error.message);
      return [];
    }
    return `the import failed: ${error instanceof Error ? error.message : String(error)}`;
  }
  const exported = typeof module === "object" && module !== null && "default" in module
    ? module.default
    : undefined;
  if (exported === undefined) {
    return "no default export, wanted an operation or an array of operations";
  }
  const list: unknown[] = Array.isArray(exported) ? exported : [exported];
  if (list.length === 0) return "the default export is empty, wanted at least one operation";
  const wrong = list.findIndex((entry) => !isOperation(entry));
  if (wrong === -1) return list.filter(isOperation);
  const which = Array.isArray(exported)
    ? `entry ${wrong} of the default export`
    : "the default export";
  return `${which} was not made with defineOperation`;
}

/** Null for URLs of other schemes. A one-letter scheme is a Windows drive. */
function toFileUrl(name: string, folder: string): string | null {
  if (name.startsWith("file:")) {
    try {
      return pathToFileURL(fileURLToPath(name)).href;
    } catch {
      return null;
    }
  }
  if (/^[a-z][a-z0-9+.-]+:/i.test(name)) return null;
  return pathToFileURL(isAbsolute(name) ? name : resolve(folder, name)).href;
}
