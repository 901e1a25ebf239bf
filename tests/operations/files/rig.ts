import type { JsonObject } from "../../../src/core/json.ts";
import type { ShownCall } from "../../../src/core/tool.ts";
import { callTool, type ToolOutcome } from "../../../src/operations/call.ts";
import { createFileOperations } from "../../../src/operations/files/file_operations.ts";
import type { Workspace } from "../../../src/operations/files/workspace.ts";
import { toTool } from "../../../src/operations/to_tool.ts";
import { findBubblewrap, sandboxArgv } from "../../../src/process/sandbox.ts";
import { systemClock } from "../../support/system_clock.ts";
import { createToolContext } from "../tool_context.ts";

/** What stands in `outside/canary` and nowhere else. */
export const CANARY = "the canary of a stranger";

/** `PATH` of scripts. */
export const PATH = Deno.env.get("PATH") ?? "/usr/bin:/bin";

/** Whether bubblewrap works here; where it does not, its tests have nothing to run in. */
export const bubblewrap = await findBubblewrap({ path: PATH, clock: systemClock });

const LISTEN = `Deno.listen({ transport: "unix", path: Deno.args[0] });
console.log("made"); for await (const _ of Deno.stdin.readable);`;

/** Makes a pipe, or a socket whose owner is gone. */
export async function makeSpecial(kind: "pipe" | "socket", path: string): Promise<void> {
  if (kind === "pipe") {
    const { success } = await new Deno.Command("mkfifo", { args: [path] }).output();
    if (!success) throw new Error("mkfifo failed");
    return;
  }
  const owner = new Deno.Command(Deno.execPath(), {
    args: ["eval", LISTEN, path],
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const reader = owner.stdout.getReader();
  await reader.read();
  // It would take the socket along if it were asked to end.
  owner.kill("SIGKILL");
  await reader.cancel();
  await owner.stdin.close().catch(() => {});
  await owner.status;
}

/** A workspace in a folder of its own, and a folder beside it that is none of its business. */
export interface FilesRig {
  /** Real path of the workspace. */
  ws: string;
  /** Real path of the folder beside it. */
  outside: string;
  call(
    name: string,
    input: JsonObject,
    signal?: AbortSignal,
    shownState?: string,
  ): Promise<ToolOutcome>;
  /** What a person is shown of a call. */
  preview(name: string, input: JsonObject): Promise<ShownCall>;
  /** What a call that has to work gives. */
  ok(name: string, input: JsonObject): Promise<string>;
  /** The error of a call that must not work. */
  fails(name: string, input: JsonObject): Promise<string>;
}

/** Runs a body with a workspace; limited and without a sandbox unless told. */
export async function withFiles(
  body: (rig: FilesRig) => Promise<void>,
  { boxed = false, ...fields }: Partial<Workspace> & { boxed?: boolean } = {},
): Promise<void> {
  const made = await Deno.makeTempDir({ prefix: "loophub-files-" });
  const base = await Deno.realPath(made);
  const [ws, outside] = [`${base}/ws`, `${base}/ws-evil`];
  await Deno.mkdir(ws);
  await Deno.mkdir(outside);
  await Deno.writeTextFile(`${outside}/canary`, CANARY);
  const operations = createFileOperations({
    dir: ws,
    isLimited: true,
    isChecked: true,
    maxFileBytes: 1024 * 1024,
    within: boxed ? sandboxArgv({ folder: ws }) : [],
    path: PATH,
    nonce: () => crypto.getRandomValues(new Uint8Array(16)).toHex(),
    clock: systemClock,
    ...fields,
  });
  const tools = new Map(operations.map((one) => [one.name, toTool(one)]));
  const call: FilesRig["call"] = async (name, input, signal, shownState) => {
    const tool = tools.get(name);
    const checked = tool?.validate(input);
    if (tool === undefined || checked?.ok !== true) {
      throw new Error(`${name} ${JSON.stringify(input)}: ${JSON.stringify(checked)}`);
    }
    const { context } = createToolContext(systemClock, signal);
    return await callTool(tool, checked.input, { context: { ...context, shownState } });
  };
  try {
    await body({
      ws,
      outside,
      call,
      async preview(name, input) {
        const { preview } = tools.get(name) ?? {};
        if (preview === undefined) throw new Error(`${name} shows nothing`);
        return await preview(input, { signal: new AbortController().signal });
      },
      async ok(name, input) {
        const outcome = await call(name, input);
        if (!outcome.ok) throw new Error(`${name} failed: ${outcome.errorText}`);
        return typeof outcome.output === "string" ? outcome.output : JSON.stringify(outcome.output);
      },
      async fails(name, input) {
        const outcome = await call(name, input);
        if (outcome.ok) throw new Error(`${name} worked: ${JSON.stringify(outcome.output)}`);
        return outcome.errorText;
      },
    });
  } finally {
    await Deno.remove(base, { recursive: true });
  }
}
