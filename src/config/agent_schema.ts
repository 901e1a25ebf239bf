import { type Static, Type } from "@sinclair/typebox";
import type { JsonObject } from "../core/json.ts";
import { DEFAULT_MAX_STEPS } from "../core/limits.ts";
import { ToolChoice } from "./provider_schema.ts";
import { MODEL_ROUTING } from "./routing_schema.ts";
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
    description: "Model calls of its steps, what was said to it meanwhile included.",
  })),
  wallTimeMs: Type.Optional(Type.Integer({
    minimum: 1,
    maximum: 2_000_000_000,
    description: "Milliseconds from its beginning, waits for people included.",
  })),
  tokens: Type.Optional(Type.Integer({
    minimum: 1,
    description: "Tokens of its model calls, in and out.",
  })),
  costMicros: Type.Optional(Type.Integer({
    minimum: 1,
    description: "Cost of its model calls, in millionths of a US dollar.",
  })),
  outputBytes: Type.Optional(Type.Integer({
    minimum: 1,
    description: "UTF-8 bytes that its models and tools write.",
  })),
}, { ...closed, description: "What one run may use up; a bound that is left out is none." });

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
      "Patterns over full tool names, * standing for any text; a tool that fits one is offered.",
  }),
  approvals: Type.Optional(Type.Object({
    ask: Type.Array(Type.String({ minLength: 1 }), {
      default: [],
      uniqueItems: true,
      description:
        "Patterns over full tool names: before a tool that fits one runs, a person is asked, whatever the tool says.",
    }),
  }, { ...closed, description: "Which calls a person has to approve." })),
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
