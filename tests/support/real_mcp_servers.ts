import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";

const root = new URL("../../", import.meta.url).pathname;
const config: { imports: Record<string, string> } = JSON.parse(
  await Deno.readTextFile(`${root}deno.json`),
);

/** The package of a real server, at the version that is pinned. */
const packageOf = (name: string) => config.imports[`@modelcontextprotocol/${name}`] ?? "";

/** Fetches packages with the environment of the tests: servers get none of it. */
export async function fetchPackages(names: readonly string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["cache", "--no-lock", "--no-config", ...names.map(packageOf)],
  }).output();
  assert.ok(success, new TextDecoder().decode(stderr));
}

/** A real server from its package, which was fetched before. */
export function realServer(name: string, args: string[], env: JsonObject = {}): JsonObject {
  const cache = Deno.env.get("DENO_DIR");
  return {
    command: Deno.execPath(),
    args: ["run", "-A", "--no-lock", "--no-config", "--cached-only", packageOf(name), ...args],
    env: { DENO_NO_UPDATE_CHECK: "1", ...cache === undefined ? {} : { DENO_DIR: cache }, ...env },
    connectTimeoutMs: 120_000,
    timeoutMs: 60_000,
  };
}
