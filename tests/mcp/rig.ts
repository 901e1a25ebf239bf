import { completeMcpServers } from "../../src/config/complete_mcp_servers.ts";
import { checkSchema } from "../../src/config/check_schema.ts";
import { createProblemList } from "../../src/config/problem.ts";
import { toSchemaNode } from "../../src/config/schema_node.ts";
import { Config } from "../../src/config/schema.ts";
import type { Clock } from "../../src/core/clock.ts";
import type { Json, JsonObject } from "../../src/core/json.ts";
import { McpServers } from "../../src/mcp/mcp_servers.ts";
import type { openClient } from "../../src/mcp/open_client.ts";
import type { McpCallFact } from "../../src/mcp/to_tool.ts";
import { foreignParameters, foreignValidator } from "../../src/operations/foreign_schema.ts";
import type { ToolContext, ToolResult } from "../../src/core/tool.ts";
import { createToolContext } from "../operations/tool_context.ts";
import { systemClock } from "../support/system_clock.ts";

const PLAN = new URL("../fixtures/mcp-servers/scripted.mjs", import.meta.url).pathname;

/** What a scripted server does; see the fixture. */
export interface ServerPlan {
  tools?: Json[];
  pages?: Json[][];
  /** A file with the tools, or the error, read for each list. */
  toolsFile?: string;
  results?: JsonObject;
  modes?: string[];
  /** Beside those of tools. */
  capabilities?: JsonObject;
  /** Results by method, or their pages; `"silence"`, or `"progress"` for ever; with a `code` an error. */
  answers?: JsonObject;
  /** A file with them, read each time. */
  answersFile?: string;
  instructions?: string;
  /** The one revision that it speaks, whatever it is asked for. */
  revision?: string;
}

/** Settings of a server that does what the plan says. */
export function scripted(plan: ServerPlan, settings: JsonObject = {}): JsonObject {
  const script = JSON.stringify(plan);
  return {
    command: Deno.execPath(),
    args: ["run", "-A", "--no-config", "--no-lock", PLAN, script],
    env: { NO_COLOR: "1", DENO_NO_UPDATE_CHECK: "1" },
    // A busy machine takes long to start a runtime.
    connectTimeoutMs: 120_000,
    ...settings,
  };
}

/** Settings as the loader makes them. */
export function loadServers(servers: JsonObject) {
  const problems = createProblemList({ lineOf: () => undefined, variableOf: () => undefined });
  const checked = checkSchema(toSchemaNode(Config), { mcpServers: servers }, {
    problems,
    references: new Map(),
  }) as Config;
  const completed = completeMcpServers(checked.mcpServers, { folder: "/test", problems });
  return { servers: completed, problems: problems.all };
}

/** Servers of these settings, their calls and their log; all of them end with the body. */
export async function withServers(
  settings: JsonObject,
  body: (rig: McpRig) => Promise<void>,
  options: {
    clock?: Clock;
    env?: Record<string, string>;
    open?: typeof openClient;
    random?: () => number;
  } = {},
): Promise<void> {
  const { servers, problems } = loadServers(settings);
  if (problems.length > 0) throw new Error(JSON.stringify(problems));
  const { clock = systemClock, env = {}, random = () => 1 } = options;
  const { context, progressed, logged } = createToolContext(clock);
  const facts: McpCallFact[] = [];
  const secrets: string[] = [];
  const mcp = new McpServers({
    servers,
    clock,
    random,
    log: context.log,
    env: (name) =>
      env[name] ?? (name === "PATH" || name === "HOME" ? Deno.env.get(name) : undefined),
    addSecret: (secret) => void secrets.push(secret),
    schemas: { parametersOf: foreignParameters, validatorOf: foreignValidator },
    observe: (fact) => void facts.push(fact),
    ...options.open === undefined ? {} : { open: options.open },
  });
  try {
    await body({
      mcp,
      facts,
      secrets,
      progressed,
      logged,
      context,
      async call(name, input, signal) {
        const tool = mcp.tools.find((tool) => tool.name === name);
        if (tool === undefined) throw new Error(`No tool ${name}`);
        const { original: _, ...result } = await tool.execute(
          input ?? {},
          signal === undefined ? context : { ...context, signal },
        );
        return result;
      },
      connection(name) {
        const found = mcp.connections.find((connection) => connection.name === name);
        if (found === undefined) throw new Error(`No server ${name}`);
        return found;
      },
    });
  } finally {
    await mcp.close();
  }
}

/** What a test of servers holds. */
export interface McpRig {
  mcp: McpServers;
  facts: McpCallFact[];
  secrets: string[];
  progressed: Json[];
  logged: string[];
  context: ToolContext;
  call(name: string, input?: JsonObject, signal?: AbortSignal): Promise<ToolResult>;
  connection(name: string): McpServers["connections"][number];
}
