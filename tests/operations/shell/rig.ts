import type { Json, JsonObject } from "../../../src/core/json.ts";
import { callTool, type ToolOutcome } from "../../../src/operations/call.ts";
import type { ShellRules } from "../../../src/operations/shell/shell.ts";
import { createShellOperations } from "../../../src/operations/shell/shell_operations.ts";
import { toTool } from "../../../src/operations/to_tool.ts";
import { sandboxArgv } from "../../../src/process/sandbox.ts";
import { systemClock } from "../../support/system_clock.ts";
import { bubblewrap, PATH } from "../files/rig.ts";
import { createToolContext } from "../tool_context.ts";

/** A workspace in which commands run, and a folder beside it. */
export interface ShellRig {
  ws: string;
  outside: string;
  /** A text that no other process has; it is among the arguments of what should be found again. */
  mark: string;
  progressed: Json[];
  call(name: "run" | "script", input: JsonObject, signal?: AbortSignal): Promise<ToolOutcome>;
  /** What a script gives that has to come to an end. */
  ok(script: string, more?: JsonObject): Promise<string>;
  /** The error of one that must not. */
  fails(script: string, more?: JsonObject): Promise<string>;
}

/** How commands are held. */
export type Way = "boxed" | "open" | "free";

/** Runs a body with a workspace: in bubblewrap, with checks alone, or in full control within bubblewrap. */
export async function withShell(
  way: Way,
  body: (rig: ShellRig) => Promise<void>,
  rules: Partial<ShellRules> = {},
): Promise<void> {
  const base = await Deno.realPath(await Deno.makeTempDir({ prefix: "loophub-shell-" }));
  const [ws, outside] = [`${base}/ws`, `${base}/ws-evil`];
  await Deno.mkdir(ws);
  await Deno.mkdir(outside);
  const isLimited = way !== "free";
  const boxed = sandboxArgv(isLimited ? { folder: ws } : { folder: null, network: true });
  const operations = createShellOperations({
    dir: ws,
    isLimited,
    isChecked: true,
    maxFileBytes: 1024,
    within: [],
    path: PATH,
    nonce: () => crypto.randomUUID(),
    clock: systemClock,
  }, {
    allow: null,
    script: true,
    timeoutMs: 30_000,
    maxTimeoutMs: 60_000,
    env: { PATH, HOME: "/tmp" },
    within: way === "open" ? [] : boxed,
    maxOutputBytes: 64 * 1024,
    maxMemoryMb: 4096,
    maxProcesses: 200,
    maxFileMb: 16,
    ...rules,
  });
  const tools = new Map(operations.map((one) => [one.name, toTool(one)]));
  const progressed: Json[] = [];
  const call: ShellRig["call"] = async (name, input, signal) => {
    const tool = tools.get(name);
    const checked = tool?.validate(input);
    if (tool === undefined || checked?.ok !== true) {
      throw new Error(`${name}: ${JSON.stringify(checked)}`);
    }
    const { context } = createToolContext(systemClock, signal);
    const progress = (data: Json) => void progressed.push(data);
    return await callTool(tool, checked.input, { context: { ...context, progress } });
  };
  try {
    await body({
      ws,
      outside,
      mark: `mark-${crypto.randomUUID()}`,
      progressed,
      call,
      async ok(script, more = {}) {
        const outcome = await call("script", { script, ...more });
        if (!outcome.ok) throw new Error(`${script}: ${outcome.errorText}`);
        return String(outcome.output);
      },
      async fails(script, more = {}) {
        const outcome = await call("script", { script, ...more });
        if (outcome.ok) throw new Error(`${script} ended: ${outcome.output}`);
        return outcome.errorText;
      },
    });
  } finally {
    await Deno.remove(base, { recursive: true });
  }
}

/** Registers a test for each of the ways that can be tried here. */
export function eachWay(
  name: string,
  body: (rig: ShellRig, way: Way) => Promise<void>,
  { ways = ["boxed", "open", "free"], ...rules }: Partial<ShellRules> & {
    ways?: readonly Way[];
  } = {},
): void {
  for (const way of ways) {
    Deno.test({
      name: `${name} (${way})`,
      ignore: way !== "open" && !bubblewrap.works,
      fn: () => withShell(way, (rig) => body(rig, way), rules),
    });
  }
}
