import { HubError } from "../core/error.ts";
import { encodeJsonInSteps } from "../core/large_json/encode_json.ts";
import type { CallModel, ModelCallContext, ModelEvent } from "../core/model.ts";
import { type Target, withCosts } from "../providers/target.ts";
import type { Span } from "../telemetry/tracing.ts";
import { CHAT } from "../wire/openai_chat/chat_wire.ts";
import { decodeChatAnswer } from "../wire/openai_chat/decode_answer.ts";
import { encodeChatRequest } from "../wire/openai_chat/encode_request.ts";
import { applyOverride } from "./apply_override.ts";
import { cutDescriptions } from "./cut_descriptions.ts";
import type { OpenAnswer } from "./open_answer.ts";
import type { Route } from "./route.ts";
import type { CallFacts } from "./usage_fact.ts";

/**
 * A model for the AgentLoop: the same targets, retries and accounting as the proxy, decoded into model events.
 * Each target gets the request with its model's settings; `toWire` names the tool that such a setting may name.
 */
export function createCallModel(
  openAnswer: OpenAnswer,
  options: {
    /** Asked at each call. */
    targets: () => Route;
    facts: CallFacts;
    /** Of the run whose calls they are; null, or left out, where none would be booked by its next owner. */
    epoch?: number | null;
    /** Tags of the key whose run it is. */
    tags: readonly string[];
    toWire: (toolName: string) => string;
    span?: Span | null;
  },
): CallModel {
  let calls = 0;
  return async function* (request, context) {
    const { tags, toWire, span = null } = options;
    const facts = factsOf(options, { context, number: calls++ });
    const targets = options.targets();
    const requestFor = ({ override, quirks }: Target) =>
      cutDescriptions(applyOverride(request, { override, toWire }), quirks.toolDescriptionChars);
    const bodyFor = (target: Target) =>
      encodeJsonInSteps(encodeChatRequest(requestFor(target), target));
    const [first] = targets;
    const measured = first !== undefined && targets.tiers?.some(({ rules }) => rules.length > 0);
    const answer = await openAnswer({
      targets,
      prepare: async (target) => ({
        wire: CHAT,
        body: await bodyFor(target),
        hideUsage: false,
      }),
      bytes: measured ? (await bodyFor(first)).length : 0,
      tags,
      affinity: facts.sessionId ?? null,
      // A try after a failure in mid-answer begins with the next target, if there is one.
      turn: context.stepAttempt,
      stream: true,
      signal: context.signal,
      span,
      facts,
      ...context.onUsed === undefined ? {} : { onUsed: context.onUsed },
    });
    const { target } = answer.attempt;
    const deaf = requestFor(target).toolChoice === "none";
    let whole = false;
    try {
      yield [{
        type: "response-start",
        provider: target.provider,
        model: target.model,
        attempt: answer.attempts.length,
      }];
      for await (const read of decodeChatAnswer(() => answer.read())) {
        const events = withCosts(read, target).filter((event) => !deaf || !isCall(event));
        if (events.length > 0) yield events;
      }
      whole = true;
    } finally {
      if (!whole) answer.cancel(new HubError("aborted", "The reader of the answer has stopped"));
    }
  };
}

/** What the call's usage row says of it; of a run's call, which one it is among all of this owner. */
function factsOf(
  { facts, epoch = null }: { facts: CallFacts; epoch?: number | null },
  { context: { step, stepAttempt, isSummary }, number }: {
    context: ModelCallContext;
    number: number;
  },
): CallFacts {
  const at = step === undefined ? facts : { ...facts, step };
  if (epoch === null) return at;
  const name = step === undefined ? `${facts.requestId} ${number}` : `${stepAttempt} ${number}`;
  return { ...at, call: { epoch, name, isLogged: step !== undefined && isSummary !== true } };
}

/** A model that was told not to call is not heard when it does. */
function isCall({ type }: ModelEvent): boolean {
  return type === "tool-call-start" || type === "tool-call-delta";
}
