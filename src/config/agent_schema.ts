import { type Static, type TLiteral, Type } from "@sinclair/typebox";
import type { JsonObject } from "../core/json.ts";
import { DEFAULT_MAX_STEPS, MAX_RUN_BUDGET } from "../core/limits.ts";
import { DEFAULT_PREFLIGHT } from "../core/preflight.ts";
import { ToolChoice } from "./provider_schema.ts";
import { MODEL_ROUTING } from "./routing_schema.ts";
import { WHEN_BUSY } from "../core/when_busy.ts";
import { Workspace } from "./workspace_schema.ts";

const closed = { additionalProperties: false } as const;

/** A public model: where its calls go, in order; or the name of another model. */
export const PublicModel = Type.Union([
  Type.String({ minLength: 1, wanted: "the name of a model" }),
  Type.Object(MODEL_ROUTING, closed),
], {
  wanted: "an object with targets, or the name of another model",
  description: "Targets of a public model, or the name it is an alias of.",
});
export type PublicModel = Static<typeof PublicModel>;

/** What one run may use up. */
export const Budget = Type.Object({
  steps: Type.Optional(Type.Integer({
    minimum: 1,
    maximum: MAX_RUN_BUDGET,
    description: "Model calls of its steps, what was said to it meanwhile included.",
  })),
  wallTimeMs: Type.Optional(Type.Integer({
    minimum: 1,
    maximum: 2_000_000_000,
    description: "Milliseconds from its beginning, waits for people included.",
  })),
  tokens: Type.Optional(Type.Integer({
    minimum: 1,
    maximum: MAX_RUN_BUDGET,
    description: "Tokens of its model calls, in and out.",
  })),
  costMicros: Type.Optional(Type.Integer({
    minimum: 1,
    maximum: MAX_RUN_BUDGET,
    description: "Cost of its model calls, in millionths of a US dollar.",
  })),
  outputBytes: Type.Optional(Type.Integer({
    minimum: 1,
    maximum: MAX_RUN_BUDGET,
    description: "UTF-8 bytes that its models and tools write.",
  })),
}, { ...closed, description: "What one run may use up; a bound that is left out is none." });

const Patterns = (description: string) =>
  Type.Array(Type.String({ minLength: 1 }), { uniqueItems: true, description });
const words = <const T extends readonly string[]>(...all: T) =>
  Type.Union(all.map((word): TLiteral<T[number]> => Type.Literal(word)));

/** Before which calls of an agent a person is asked. */
export const Approvals = Type.Object({
  ask: Type.Array(Type.String({ minLength: 1 }), {
    default: [],
    uniqueItems: true,
    description:
      "Patterns over full tool names: before a tool that fits one runs, a person is asked, whatever else is said here.",
  }),
  rules: Type.Array(
    Type.Object({
      tools: Type.Optional(Patterns("Patterns over full tool names. Default: every tool.")),
      effects: Type.Optional(
        Type.Array(words("pure", "idempotent", "effect"), {
          uniqueItems: true,
          description: "What running the tool twice does. Default: anything.",
        }),
      ),
      risks: Type.Optional(
        Type.Array(words("low", "medium", "high"), {
          uniqueItems: true,
          description: "How much harm a wrong call does. Left out, each counts.",
        }),
      ),
      tier: Type.Union(words("auto", "ask", "session", "always").anyOf, {
        description:
          "Who is asked: auto nobody; ask a person, who may let the answer hold for more; session a person once a session; always a person each time.",
      }),
    }, closed),
    {
      default: [],
      maxItems: 100,
      description:
        "The first one that fits a tool counts, instead of what the tool says of itself.",
    },
  ),
  tainted: Type.Union(words("ask", "allow").anyOf, {
    default: "ask",
    description:
      "What becomes of calls with effects once a run has read what others wrote: ask a person whatever the rules say, or allow what they allow.",
  }),
}, { ...closed, description: "Which calls a person has to approve." });
export type Approvals = Static<typeof Approvals>;
/** When a person has to agree to a plan before tools run. */
const Preflight = Type.Object({
  when: Type.Union([Type.Literal("complex"), Type.Literal("always")], {
    default: DEFAULT_PREFLIGHT.when,
    wanted: '"complex" or "always"',
    description: "For complex runs, or for all.",
  }),
  calls: Type.Integer({
    minimum: 1,
    maximum: 1000,
    default: DEFAULT_PREFLIGHT.calls,
    description: "A run with so many calls of tools is complex.",
  }),
  risk: Type.Union([Type.Literal("low"), Type.Literal("medium"), Type.Literal("high")], {
    default: DEFAULT_PREFLIGHT.risk,
    wanted: '"low", "medium" or "high"',
    description: "A run with a call of this risk, or of a greater one, is complex.",
  }),
  timeoutMs: Type.Optional(Type.Integer({
    minimum: 1000,
    maximum: 2_000_000_000,
    description: "How long a person is waited for. Default: runs.approvalTimeoutMs.",
  })),
}, { ...closed, description: "When a person has to agree to a plan before tools run." });

/** A named configuration of models, prompt, tools and policy. */
export const Agent = Type.Object({
  description: Type.Optional(Type.String({ description: "What the agent is for, in a sentence." })),
  models: Type.Array(Type.String({ minLength: 1, wanted: "the name of a model" }), {
    default: [],
    uniqueItems: true,
    description:
      "Public models or provider/model, in order of failover. Default: the default model.",
  }),
  systemPrompt: Type.Optional(Type.String({ description: "Instructions that begin every run." })),
  systemPromptFile: Type.Optional(Type.String({
    minLength: 1,
    description:
      "A file with the instructions, relative to the configuration file; instead of systemPrompt.",
  })),
  tools: Type.Array(Type.String({ minLength: 1 }), {
    default: ["*"],
    uniqueItems: true,
    description:
      "Patterns over full tool names, * standing for any text; a tool that fits one is offered, but none that fits one behind !.",
  }),
  agents: Type.Array(Type.String({ minLength: 1 }), {
    default: [],
    uniqueItems: true,
    description:
      "Patterns over names of agents, as for tools: those that this one may ask, each as a tool agents.<name>.",
  }),
  skills: Type.Array(Type.String({ minLength: 1 }), {
    default: ["*"],
    uniqueItems: true,
    description: "Patterns over names of skills, as for tools: those that the agent is told of.",
  }),
  maxOfferedTools: Type.Optional(Type.Integer({
    minimum: 0,
    maximum: 128,
    description:
      "Tools above which the model is shown some, and one that finds others. Default: limits.maxOfferedTools.",
  })),
  approvals: Type.Optional(Approvals),
  questions: Type.Boolean({
    default: true,
    description:
      "Whether people are asked what MCP servers want to know in the middle of a call; else it is declined at once.",
  }),
  workspace: Type.Optional(Type.Union([Type.Literal(false), Workspace], {
    wanted: "false, or an object",
    description: "Folder that this agent works in, or false for none. Default: the hub's.",
  })),
  maxSteps: Type.Integer({
    minimum: 1,
    maximum: 1000,
    default: DEFAULT_MAX_STEPS,
    description: "Model calls of one run; on the last one the agent must conclude.",
  }),
  compaction: Type.Boolean({
    default: true,
    description:
      "Whether a conversation that outgrows its model's window is made shorter; else the run concludes.",
  }),
  budget: Type.Optional(Budget),
  preflight: Type.Optional(Preflight),
  whenBusy: Type.Optional(Type.Union(WHEN_BUSY.map((one) => Type.Literal(one)), {
    wanted: '"queue", "steer", "replace" or "refuse"',
    description:
      "What is done with a message to a chat (/api/chat) whose run goes on, unless it says itself. Default: queue.",
  })),
  temperature: Type.Optional(Type.Number({
    minimum: 0,
    maximum: 2,
    description: "Sampling temperature. Default: the model's.",
  })),
  topP: Type.Optional(Type.Number({
    exclusiveMinimum: 0,
    maximum: 1,
    description: "Nucleus sampling. Default: the model's.",
  })),
  maxOutputTokens: Type.Optional(Type.Integer({
    minimum: 1,
    description: "Most tokens of one answer. Default: the model's.",
  })),
  parallelToolCalls: Type.Optional(Type.Boolean({
    description: "Whether the model may ask for several tools in one step. Default: the model's.",
  })),
  toolChoice: Type.Optional(ToolChoice),
  extra: Type.Optional(Type.Unsafe<JsonObject>(Type.Record(Type.String(), Type.Unknown(), {
    description: "Further fields of the request to the model, such as reasoning_effort.",
  }))),
}, {
  ...closed,
  default: {},
  description: "A named configuration of models, prompt and tools.",
});
export type Agent = Static<typeof Agent>;
