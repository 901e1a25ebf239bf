import type { AbortLike } from "../core/abort.ts";
import { type Clock, sleep } from "../core/clock.ts";
import type { Deadlines } from "../core/deadlines.ts";
import { HubError, toHubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import type { Usage } from "../core/usage.ts";
import { costOf, type Target } from "../providers/target.ts";
import type { Redact } from "../wire/provider_text.ts";
import { Attempt } from "./attempt.ts";
import type { AttemptOptions } from "./attempt_options.ts";
import { candidates, mayFailOver, retryDelayMs } from "./failover.ts";
import { type Hold, holdFor, type Meter, type MeteredCall } from "./meter.ts";
import type { TargetGates } from "./target_gates.ts";
import type { TargetHealth } from "./target_health.ts";
import type { AttemptTrace, CallFacts, UsageFact, UsageOutcome } from "./usage_fact.ts";

/** What the router needs for its whole life. */
export interface RouterOptions {
  clock: Clock;
  /** A number in [0, 1). */
  random: () => number;
  log: Log;
  /** Takes secrets out of what providers say. */
  redact: Redact;
  health: TargetHealth;
  /** Of all attempts; closed by whoever made them. */
  deadlines: Deadlines;
  gates: TargetGates;
  /** Gives leave to calls that are counted; without it none is. */
  meter?: Meter;
  /** Called once for each attempt that reached a provider. Must not throw. */
  recordUsage(fact: UsageFact): void;
}

/** One request to be answered by the first target that can. */
export interface AnswerRequest {
  targets: readonly Target[];
  /** The request for a target, in a dialect that it serves. */
  prepare(target: Target): Pick<AttemptOptions, "wire" | "body" | "hideUsage">;
  stream: boolean;
  /** Choices asked for; 1 unless told. */
  choices?: number;
  signal: AbortLike;
  facts: CallFacts;
}

/** An answer that has begun, and cannot be exchanged any more. */
export interface Answer {
  readonly attempt: Attempt;
  readonly attempts: readonly AttemptTrace[];
  /** See `Attempt.read`; the end, whichever it is, is accounted. */
  read(): Promise<Uint8Array | null>;
  /** The reader has gone: stops the upstream and accounts what was streamed. */
  cancel(reason: HubError): void;
}

/** Opens an answer. */
export type OpenAnswer = (request: AnswerRequest) => Promise<Answer>;

/** Further tries of one request, over all its targets; the first try of each target is not counted. */
const MAX_RETRIES = 3;

/** Makes the one machine that tries targets: the proxy and the agents use it alike. */
export function createOpenAnswer(options: RouterOptions): OpenAnswer {
  const { gates, health } = options;
  /** False when no place at the target came free in time. */
  const enter = async (call: Calling, target: Target): Promise<boolean> => {
    const { signal } = call.request;
    const startedMs = options.clock.monotonic();
    try {
      await gates.enter(target, signal);
      return true;
    } catch (error) {
      if (signal.aborted) throw error;
      call.failure ??= toHubError(error);
      call.trace.push({
        target: target.id,
        outcome: "overloaded",
        status: null,
        durationMs: Math.round(options.clock.monotonic() - startedMs),
      });
      return false;
    }
  };
  /** Leave for a try, null for a call that needs none; undefined when this target gets none. */
  const ask = async (call: Calling, target: Target): Promise<Hold | null | undefined> => {
    const { metered, request } = call;
    const { meter } = options;
    if (metered === null || meter === undefined) return null;
    try {
      const { body } = request.prepare(target);
      const choices = request.choices ?? 1;
      const asked = await holdFor(metered, { target, body, choices, meter });
      if ("hold" in asked) return asked.hold;
      call.failure = asked.failure;
    } catch (error) {
      gates.leave(target);
      health.released(target.id);
      throw error;
    }
    gates.leave(target);
    health.released(target.id);
    return undefined;
  };
  const begin = ({ request }: Calling, target: Target, hold: Hold | null): Attempt => {
    try {
      return new Attempt({
        ...request.prepare(target),
        target,
        stream: request.stream,
        choices: request.choices ?? 1,
        signal: request.signal,
        redact: options.redact,
        clock: options.clock,
        deadlines: options.deadlines,
        ...(hold === null ? {} : { ownHeaders: hold.headers }),
      });
    } catch (error) {
      hold?.end(null, false);
      gates.leave(target);
      throw error;
    }
  };
  /** Tries a target, at which there is a place, until it answers or is not worth another try: then null. */
  const tryTarget = async (call: Calling, target: Target): Promise<Answer | null> => {
    const { request, trace } = call;
    for (let retry = 0;; retry++) {
      const hold = call.metered === null ? null : await ask(call, target);
      if (hold === undefined) return null;
      health.requested(target.provider);
      const attempt = begin(call, target, hold);
      try {
        await attempt.open();
        health.succeeded(target.id);
        return createAnswer(attempt, { options, request, trace, hold });
      } catch (error) {
        gates.leave(target);
        const failure = call.failure = toHubError(error);
        trace.push(traceOf(attempt, failure.code));
        account(attempt, { options, request, trace, hold });
        if (request.signal.aborted || !mayFailOver(failure)) {
          health.released(target.id);
          throw failure;
        }
        health.failed(target.id);
        const delayMs = call.retriesLeft > 0
          ? retryDelayMs(failure, { retry, attempt, random: options.random })
          : null;
        if (delayMs === null || !health.mayRetry(target.provider)) return null;
        call.retriesLeft--;
        options.log.info("Trying a provider again", {
          requestId: request.facts.requestId,
          target: target.id,
          error: failure,
          delayMs,
        });
        await sleep(options.clock, delayMs, request.signal);
        if (!await enter(call, target)) return null;
      }
    }
  };
  return async (request) => {
    const metered = options.meter?.enter(request.facts) ?? null;
    const call: Calling = { request, metered, trace: [], failure: null, retriesLeft: MAX_RETRIES };
    let full: Target[] | null = null;
    for (const target of candidates(request.targets, health)) {
      if (!gates.tryEnter(target)) {
        health.released(target.id);
        full ??= [];
        full.push(target);
        continue;
      }
      const answer = await tryTarget(call, target);
      if (answer !== null) return answer;
    }
    // Nobody else has answered, so that a place at the others is worth a wait.
    for (const target of full ?? []) {
      const answer = await enter(call, target) ? await tryTarget(call, target) : null;
      if (answer !== null) return answer;
    }
    throw call.failure ??
      new HubError("internal_error", "A model without targets was called");
  };
}

/** What is known of a request while its targets are tried. */
interface Calling {
  request: AnswerRequest;
  metered: MeteredCall | null;
  trace: AttemptTrace[];
  failure: HubError | null;
  retriesLeft: number;
}

interface Surroundings {
  options: RouterOptions;
  request: AnswerRequest;
  trace: AttemptTrace[];
  hold: Hold | null;
}

function createAnswer(attempt: Attempt, surroundings: Surroundings): Answer {
  const { trace, options: { gates } } = surroundings;
  let ended = false;
  const end = (outcome: string) => {
    if (ended) return;
    ended = true;
    gates.leave(attempt.target);
    trace.push(traceOf(attempt, outcome));
    account(attempt, surroundings);
  };
  return {
    attempt,
    attempts: trace,
    async read() {
      try {
        const bytes = await attempt.read();
        if (bytes === null) end("ok");
        return bytes;
      } catch (error) {
        end(toHubError(error).code);
        throw error;
      }
    },
    cancel(reason) {
      attempt.cancel(reason);
      end(reason.code);
    },
  };
}

function traceOf(attempt: Attempt, outcome: string): AttemptTrace {
  const { target, status, durationMs } = attempt;
  return { target: target.id, outcome, status, durationMs };
}

function account(attempt: Attempt, { options, request, trace, hold }: Surroundings): void {
  if (!attempt.reached) return hold?.end(null, false);
  const { target, failure } = attempt;
  const estimated = attempt.usage === null && attempt.bytesIn > 0 && failure?.status !== 400;
  const usage = attempt.usage ??
    (estimated ? estimate(attempt, request.prepare(target).body) : null);
  options.recordUsage({
    ...request.facts,
    provider: target.provider,
    model: target.model,
    streamed: request.stream,
    outcome: outcomeOf(failure),
    status: attempt.status,
    errorCode: failure?.code ?? null,
    usage,
    estimated,
    costMicros: usage === null ? null : costOf(usage, target.override.pricing),
    startedAt: attempt.startedAt,
    firstTokenMs: attempt.firstTokenMs,
    durationMs: attempt.durationMs,
    bytesOut: attempt.bytesOut,
    attempts: [...trace],
    ...(hold === null ? {} : { usageId: hold.usageId, budgetWindows: hold.windows }),
  });
  hold?.end(usage, true);
}

function outcomeOf(failure: HubError | null): UsageOutcome {
  switch (failure?.code) {
    case undefined:
      return "ok";
    case "client_closed":
    case "aborted":
      return "aborted";
    case "upstream_cut":
      return "cut";
    case "upstream_timeout":
      return "timeout";
    default:
      return "error";
  }
}

/** A token for four bytes of the request; answers are mostly framing, about 150 bytes a token in a stream. */
function estimate(attempt: Attempt, body: Uint8Array): Usage {
  const promptTokens = Math.ceil(body.length / 4);
  const completionTokens = Math.ceil(attempt.bytesIn / (attempt.stream ? 150 : 4));
  return {
    promptTokens,
    completionTokens,
    totalTokens: promptTokens + completionTokens,
    cachedTokens: 0,
    reasoningTokens: 0,
  };
}
