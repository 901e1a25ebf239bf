import type { CallToolResult } from "@modelcontextprotocol/server";
import type { Agent } from "../../config/agent_schema.ts";
import { HubError } from "../../core/error.ts";
import type { IdSource } from "../../core/id.ts";
import { isJsonObject, type JsonObject, type JsonSchema } from "../../core/json.ts";
import { findSession } from "../../http/routes/sessions.ts";
import { describeProblems } from "../../operations/registry.ts";
import { createValidator } from "../../operations/validate_input.ts";
import { allows } from "../../policy/key_policy.ts";
import type { FindAgent } from "../../run/create_agents.ts";
import { createSession } from "../../store/sessions.ts";
import { type AgentAnswer, type AgentRunsOptions, askAgent } from "./agent_answer.ts";
import type { ServedTool, ToolCaller, ToolSource } from "./served_tool.ts";
import { createStructuredAnswer, type StructuredAnswer } from "./structured_answer.ts";

/** What serving agents needs. */
export interface AgentToolsOptions extends AgentRunsOptions {
  /** Those that count now. */
  agents(): Readonly<Record<string, Agent>>;
  findAgent: FindAgent;
  ids: IdSource;
}

/** Times an answer that does not fit is sent back. */
const MAX_REPAIRS = 2;
/** What asks for a conversation whose id is told. */
const NEW_SESSION = "new";

const INPUT: JsonSchema = {
  type: "object",
  properties: {
    prompt: { type: "string", minLength: 1, description: "What to say to the agent" },
    format: {
      type: "string",
      enum: ["text", "json"],
      description: "How it is to answer; text when left out",
    },
    schema: {
      type: "object",
      description: 'With format json: the JSON Schema of the answer, which has type "object"',
    },
    session: {
      type: "string",
      minLength: 1,
      maxLength: 200,
      description:
        `The conversation to go on with, as an earlier answer told it; "${NEW_SESSION}" begins one and tells it. Left out, the agent knows nothing of earlier calls`,
    },
  },
  required: ["prompt"],
  additionalProperties: false,
};
const validate = createValidator(INPUT, { coerce: false });

interface AgentInput {
  prompt: string;
  format?: "text" | "json";
  schema?: JsonSchema;
  session?: string;
}

/** Each agent as a tool whose calls are stored runs. */
export function createAgentTools(options: AgentToolsOptions): ToolSource {
  return {
    list: () =>
      Object.entries(options.agents()).map(([name, { description }]): ServedTool => ({
        name: `agent.${name}`,
        title: name,
        description: description ?? `Asks the agent ${name} and gives its answer.`,
        inputSchema: INPUT,
        annotations: { readOnlyHint: false, openWorldHint: true },
        isFor: ({ agents }) => allows(agents, name),
        call: (input, caller) => call(name, { input: parseInput(input), caller }, options),
      })),
  };
}

function parseInput(input: JsonObject): AgentInput {
  const checked = validate(input);
  if (!checked.ok) {
    throw new HubError(
      "invalid_request",
      `The arguments do not fit: ${describeProblems(checked.problems)}`,
    );
  }
  const parsed = checked.input as unknown as AgentInput;
  if (parsed.schema !== undefined && parsed.format !== "json") {
    throw new HubError("invalid_request", "A schema wants format json");
  }
  return parsed;
}

async function call(
  name: string,
  { input, caller }: { input: AgentInput; caller: ToolCaller },
  options: AgentToolsOptions,
): Promise<CallToolResult> {
  const agent = options.findAgent(name);
  const structured = input.format === "json" ? createStructuredAnswer(input.schema ?? null) : null;
  const sessionId = await sessionOf(name, { input, caller }, options);
  const ask = (texts: readonly string[]) =>
    askAgent({ agent, sessionId, texts, extra: structured?.extra }, caller, options);
  const result = structured === null
    ? textResult(await ask([input.prompt]))
    : await untilItFits(structured, ask, {
      prompt: input.prompt,
      isStructured: input.schema !== undefined,
    });
  if (input.session !== undefined) {
    result.content.push({ type: "text", text: `session: ${sessionId}` });
  }
  return { ...result, _meta: { ...result._meta, "loophub/session": sessionId } };
}

function textResult({ text, runId }: AgentAnswer): CallToolResult {
  return { content: [{ type: "text", text }], _meta: { "loophub/run": runId } };
}

/** Sends an answer back that does not fit, a few times. */
async function untilItFits(
  structured: StructuredAnswer,
  ask: (texts: readonly string[]) => Promise<AgentAnswer>,
  { prompt, isStructured }: { prompt: string; isStructured: boolean },
): Promise<CallToolResult> {
  let texts: readonly string[] = [prompt, structured.instruction];
  for (let repairs = 0;; repairs++) {
    const answer = await ask(texts);
    const read = structured.read(answer.text);
    if (read.ok) {
      const result = textResult({ ...answer, text: JSON.stringify(read.value) });
      return isStructured && isJsonObject(read.value)
        ? { ...result, structuredContent: read.value }
        : result;
    }
    if (repairs === MAX_REPAIRS) {
      throw new HubError(
        "upstream_malformed",
        `The agent's answer does not fit after ${MAX_REPAIRS} repairs. ${read.problem}`,
      );
    }
    texts = [`Your answer cannot be used. ${read.problem}. ${structured.instruction}`];
  }
}

async function sessionOf(
  agent: string,
  { input, caller: { principal } }: { input: AgentInput; caller: ToolCaller },
  { start: { db }, ids }: AgentToolsOptions,
): Promise<string> {
  const { tenantId, keyId } = principal;
  if (input.session !== undefined && input.session !== NEW_SESSION) {
    return (await findSession(db, { tenantId, id: input.session })).id;
  }
  return (await createSession(db, { tenantId, sessionId: ids.next("ses"), agent, keyId })).id;
}
