import type { CallToolResult } from "@modelcontextprotocol/server";
import { type Agent, Budget } from "../../config/agent_schema.ts";
import { HubError } from "../../core/error.ts";
import type { IdSource } from "../../core/id.ts";
import type { RunBudget } from "../../core/run_budget.ts";
import { isJsonObject, type JsonObject, type JsonSchema } from "../../core/json.ts";
import { accessOf } from "../../core/ownership.ts";
import { answerFormatOf } from "../../http/answer_format.ts";
import { describeProblems } from "../../operations/registry.ts";
import { createValidator } from "../../operations/validate_input.ts";
import { allows } from "../../policy/key_policy.ts";
import type { FindAgent } from "../../run/create_agents.ts";
import { findSession } from "../../run/owned.ts";
import { type AgentAnswer, type AgentRunsOptions, askAgent } from "./agent_answer.ts";
import type { ServedTool, ToolCaller, ToolSource } from "./served_tool.ts";

/** What serving agents needs. */
export interface AgentToolsOptions extends AgentRunsOptions {
  /** Those that count now. */
  agents(): Readonly<Record<string, Agent>>;
  findAgent: FindAgent;
  ids: IdSource;
}

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
    budget: JSON.parse(JSON.stringify(Budget)),
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
  budget?: RunBudget;
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
        hasConnections: true,
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
  return checked.input as unknown as AgentInput;
}

async function call(
  name: string,
  { input, caller }: { input: AgentInput; caller: ToolCaller },
  options: AgentToolsOptions,
): Promise<CallToolResult> {
  const agent = options.findAgent(name);
  const format = answerFormatOf(input);
  const isNew = input.session === undefined || input.session === NEW_SESSION;
  const sessionId = isNew
    ? options.ids.next("ses")
    : await sessionOf(input.session ?? "", caller, options);
  const { prompt, budget } = input;
  const asked = { agent, sessionId, isNew, prompt, format, budget };
  const result = toResult(await askAgent(asked, caller, options), {
    isStructured: input.schema !== undefined,
  });
  if (input.session !== undefined) {
    result.content.push({ type: "text", text: `session: ${sessionId}` });
  }
  return { ...result, _meta: { ...result._meta, "loophub/session": sessionId } };
}

function toResult(
  { text, runId, value }: AgentAnswer,
  { isStructured }: { isStructured: boolean },
): CallToolResult {
  return {
    content: [{ type: "text", text: value === undefined ? text : JSON.stringify(value) }],
    ...isStructured && isJsonObject(value) ? { structuredContent: value } : {},
    _meta: { "loophub/run": runId },
  };
}

async function sessionOf(
  id: string,
  { principal }: ToolCaller,
  { start: { db } }: AgentToolsOptions,
): Promise<string> {
  return (await findSession(db, accessOf(principal), id)).id;
}
