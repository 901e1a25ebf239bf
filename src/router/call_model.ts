import { HubError } from "../core/error.ts";
import type { CallModel, ModelEvent } from "../core/model.ts";
import { type Target, withCosts } from "../providers/target.ts";
import type { Span } from "../telemetry/tracing.ts";
import { CHAT } from "../wire/openai_chat/chat_wire.ts";
import { decodeChatAnswer } from "../wire/openai_chat/decode_answer.ts";
import { encodeChatRequest } from "../wire/openai_chat/encode_request.ts";
import { applyOverride } from "./apply_override.ts";
import type { OpenAnswer } from "./open_answer.ts";
import type { Route } from "./route.ts";
import type { CallFacts } from "./usage_fact.ts";

const encoder = new TextEncoder();

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
    /** Tags of the key whose run it is. */
    tags: readonly string[];
    toWire: (toolName: string) => string;
    span?: Span | null;
  },
): CallModel {
  return async function* (request, context) {
    const { facts, tags, toWire, span = null } = options;
    const targets = options.targets();
    const requestFor = ({ override }: Target) => applyOverride(request, { override, toWire });
    const bodyFor = (target: Target) =>
      encoder.encode(JSON.stringify(encodeChatRequest(requestFor(target), target)));
    const [first] = targets;
    const measured = first !== undefined && targets.tiers?.some(({ rules }) => rules.length > 0);
    const answer = await openAnswer({
      targets,
      prepare: (target) => ({ wire: CHAT, body: bodyFor(target), hideUsage: false }),
      bytes: measured ? bodyFor(first).length : 0,
      tags,
      affinity: facts.sessionId ?? null,
      // A try after a failure in mid-answer begins with the next target, if there is one.
      turn: context.stepAttempt,
      stream: true,
      signal: context.signal,
      span,
      facts: { ...facts, ...(context.step === undefined ? {} : { step: context.step }) },
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

/** A model that was told not to call is not heard when it does. */
function isCall({ type }: ModelEvent): boolean {
  return type === "tool-call-start" || type === "tool-call-delta";
}
