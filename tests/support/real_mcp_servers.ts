import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { eventually } from "./test_hub.ts";

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

const PATIENT = { connectTimeoutMs: 120_000, timeoutMs: 60_000 };

function commandOf(name: string, args: string[]) {
  const cache = Deno.env.get("DENO_DIR");
  return {
    command: Deno.execPath(),
    args: ["run", "-A", "--no-lock", "--no-config", "--cached-only", packageOf(name), ...args],
    env: { DENO_NO_UPDATE_CHECK: "1", ...cache === undefined ? {} : { DENO_DIR: cache } },
  };
}

/** A real server from its package, which was fetched before. */
export function realServer(name: string, args: string[], env: JsonObject = {}): JsonObject {
  const { env: own, ...command } = commandOf(name, args);
  return { ...command, env: { ...own, ...env }, ...PATIENT };
}

/** A real server in a process of its own, which takes connections at a port. */
export async function startRealServer(
  name: string,
  args: string[],
): Promise<{ url: string; patient: JsonObject; stop(): Promise<void> }> {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr as Deno.NetAddr;
  listener.close();
  const { command, env, ...rest } = commandOf(name, args);
  const path = Deno.env.get("PATH");
  const child = new Deno.Command(command, {
    ...rest,
    clearEnv: true,
    env: { ...env, PORT: String(port), ...path === undefined ? {} : { PATH: path } },
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  const stop = async () => {
    child.kill("SIGKILL");
    await child.status;
  };
  try {
    await eventually(async () => {
      const up = await Deno.connect({ hostname: "127.0.0.1", port }).catch(() => null);
      up?.close();
      return up;
    }, 60_000);
  } catch (error) {
    await stop();
    throw error;
  }
  return { url: `http://127.0.0.1:${port}`, patient: PATIENT, stop };
}
