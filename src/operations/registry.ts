import type { Clock } from "../core/clock.ts";
import { HubError } from "../core/error.ts";
import type { Json } from "../core/json.ts";
import type { Log } from "../core/log.ts";
import type { Tool, ToolContext, ToolInputProblem } from "../core/tool.ts";
import { type CallLimits, callTool, type SaveResult, type ToolOutcome } from "./call.ts";
import type { Operation } from "./operation.ts";
import { toTool } from "./to_tool.ts";

/** What a registry is made of. */
export interface RegistryOptions {
  operations: readonly Operation[];
  limits?: Partial<CallLimits>;
  /** Deadline of operations that set none. */
  toolTimeoutMs?: number;
  clock: Clock;
  log: Log;
  saveResult?: SaveResult;
}

/** Who calls and for what. Clock, log and progress are the registry's own unless the caller gives them. */
export type RegistryContext =
  & Omit<ToolContext, "clock" | "log" | "progress">
  & Partial<Pick<ToolContext, "clock" | "log" | "progress">>;

/** The hub's operations as tools. */
export interface Registry {
  /** All tools, sorted by name: what models see must not depend on the order of loading. */
  list(): readonly Tool[];
  get(name: string): Tool | undefined;
  /**
   * Validates, runs, bounds and measures one call by full name. Rejects with `not_found` for an unknown name and
   * `invalid_request` for arguments that do not fit; what became of the operation itself is the outcome.
   */
  execute(name: string, input: Json, context: RegistryContext): Promise<ToolOutcome>;
}

/** Makes the registry. Throws `invalid_configuration` when two operations have one name. */
export function createRegistry(options: RegistryOptions): Registry {
  const { limits, saveResult, toolTimeoutMs: timeoutMs } = options;
  const tools = new Map<string, Tool>();
  for (const operation of options.operations) {
    if (tools.has(operation.fullName)) {
      throw new HubError(
        "invalid_configuration",
        `Two operations are named ${operation.fullName}; each name may be defined once`,
      );
    }
    tools.set(operation.fullName, toTool(operation, timeoutMs === undefined ? {} : { timeoutMs }));
  }
  const sorted = [...tools.values()].sort((a, b) => a.name < b.name ? -1 : 1);
  return {
    list: () => sorted,
    get: (name) => tools.get(name),
    async execute(name, input, context) {
      const tool = tools.get(name);
      if (tool === undefined) {
        throw new HubError("not_found", `No operation named ${name.slice(0, 120)}`);
      }
      const checked = tool.validate(input);
      if (!checked.ok) {
        throw new HubError(
          "invalid_request",
          `The arguments of ${name} do not fit: ${describeProblems(checked.problems)}`,
          { details: { problems: checked.problems } },
        );
      }
      const outcome = await callTool(tool, checked.input, {
        context: { clock: options.clock, log: options.log, progress: () => {}, ...context },
        ...limits === undefined ? {} : { limits },
        ...saveResult === undefined ? {} : { saveResult },
      });
      options.log.debug("Operation called", {
        operation: name,
        status: outcome.status,
        durationMs: outcome.durationMs,
        chars: outcome.chars,
      });
      return outcome;
    },
  };
}

/** Problems as one line a model or a user can act on. */
export function describeProblems(problems: readonly ToolInputProblem[]): string {
  return problems
    .map(({ path, wanted, got }) =>
      `${path === "" ? "(root)" : path}: wanted ${wanted}, got ${got}`
    )
    .join("; ");
}
