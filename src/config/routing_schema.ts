import { type Static, Type } from "@sinclair/typebox";
import { Duration } from "./duration_schema.ts";

const closed = { additionalProperties: false } as const;

/** Which of a model's targets is tried first. */
export const Strategy = Type.Union([
  Type.Literal("order"),
  Type.Literal("weights"),
  Type.Literal("latency"),
  Type.Literal("busy"),
], {
  description:
    "Which target is tried first: order (as listed), weights (at random, by weight), latency (soonest first content), busy (fewest calls under way). Default: order.",
});
export type Strategy = Static<typeof Strategy>;

const Targets = (description: string) =>
  Type.Array(Type.String({ minLength: 1, wanted: "provider/model" }), {
    minItems: 1,
    uniqueItems: true,
    wanted: "a list of provider/model with at least one entry",
    description,
  });

/** When a second target is asked beside the first. */
export const Hedge = Type.Object({
  afterMs: Type.Optional(Duration({
    description:
      "Wait for the first content before the next target is asked too. Default: the 95th percentile of the first target's recent times.",
  })),
  maxPercent: Type.Optional(Type.Number({
    exclusiveMinimum: 0,
    maximum: 100,
    description:
      "Most requests of the model, in percent, that may ask a second target. Default: 5.",
  })),
}, {
  ...closed,
  description: "Asks a second target when the first is late; the first content wins.",
});
export type Hedge = Static<typeof Hedge>;

/** What a request must be like; all that is said must hold. */
export const RuleCondition = Type.Object({
  tag: Type.Optional(Type.String({ minLength: 1, description: "A tag that the API key has." })),
  minBytes: Type.Optional(Type.Integer({
    minimum: 0,
    description: "Smallest size of the request's body, in bytes.",
  })),
  maxBytes: Type.Optional(Type.Integer({
    minimum: 0,
    description: "Largest size of the request's body, in bytes.",
  })),
  stream: Type.Optional(Type.Boolean({ description: "Whether a stream is asked for." })),
}, { ...closed, description: "What a request must be like; all that is said must hold." });
export type RuleCondition = Static<typeof RuleCondition>;

/** The members of a public model that say how its targets are chosen. */
export const MODEL_ROUTING = {
  targets: Targets("Targets as provider/model; the next one is taken when one fails."),
  strategy: Type.Optional(Strategy),
  weights: Type.Optional(
    Type.Record(Type.String({ pattern: "^.{1,300}$" }), Type.Number({ minimum: 0 }), {
      ...closed,
      wanted: "one of the model's targets",
      description:
        "Weight of each target, for strategy weights; 1 when left out, 0 for one that is tried last.",
    }),
  ),
  affinity: Type.Optional(Type.Boolean({
    description:
      "Whether requests of one session or prompt cache key stay on one target while it is healthy. Default: true.",
  })),
  hedge: Type.Optional(Hedge),
  rules: Type.Optional(Type.Array(
    Type.Object({
      when: RuleCondition,
      targets: Targets("Targets of requests that the condition fits, instead of the model's own."),
    }, closed),
    { description: "Other targets for some requests; the first rule that fits counts." },
  )),
  fallbacks: Type.Optional(Type.Array(
    Type.String({ minLength: 1, wanted: "the name of a public model" }),
    {
      uniqueItems: true,
      description: "Public models that are tried, in order, when all targets have failed.",
    },
  )),
};
