import type { Log } from "../../src/core/log.ts";
import type { Json, JsonObject } from "../../src/core/json.ts";
import type { Tool, ToolContext } from "../../src/core/tool.ts";
import type { Clock } from "../../src/core/clock.ts";

/** A context as the loop makes it; `progressed` and `logged` collect what the tool said. */
export function createToolContext(clock: Clock, signal = new AbortController().signal) {
  const progressed: Json[] = [];
  const logged: string[] = [];
  const log: Log = {
    debug: (message) => void logged.push(`debug ${message}`),
    info: (message) => void logged.push(`info ${message}`),
    warn: (message) => void logged.push(`warn ${message}`),
    error: (message) => void logged.push(`error ${message}`),
    writes: () => true,
    with: () => log,
  };
  const context: ToolContext = {
    signal,
    clock,
    log,
    principal: { tenantId: "ten_1", keyId: "key_1", keyName: "test", role: "user" },
    sessionId: "ses_1",
    runId: "run_1",
    toolCallId: "call_1",
    agent: "default",
    idempotencyKey: "idem_1",
    progress: (data) => void progressed.push(data),
  };
  return { context, progressed, logged };
}

/** A tool around one function, with the defaults of an operation. */
export function createTool(
  execute: Tool["execute"],
  fields: Partial<Tool> = {},
): Tool {
  const inputSchema: JsonObject = { type: "object", properties: {} };
  return {
    name: "test.tool",
    description: "A tool of a test",
    inputSchema,
    parameters: inputSchema,
    strict: false,
    effect: "pure",
    approval: "never",
    risk: "low",
    timeoutMs: 1000,
    sequential: false,
    polling: false,
    validate: (input) => ({ ok: true, input }),
    execute,
    ...fields,
  };
}
