import type { AbortLike } from "../core/abort.ts";
import { type Clock, sleep } from "../core/clock.ts";
import { HubError, toHubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import type { Usage } from "../core/usage.ts";
import { costOf, type Target } from "../providers/target.ts";
import { Attempt } from "./attempt.ts";
import { ConcurrencyGate } from "./concurrency_gate.ts";
import type { TargetHealth } from "./target_health.ts";
import type { AttemptTrace, CallFacts, UsageFact, UsageOutcome } from "./usage_fact.ts";

/** What the router needs for its whole life. */
export interface RouterOptions {
  clock: Clock;
  /** A number in [0, 1). */
  random: () => number;
  log: Log;
  health: TargetHealth;
  /** Requests that one provider may have under way. */
  maxConcurrent(provider: string): number;
  /** Called once for each attempt that reached a provider. Must not throw. */
  recordUsage(fact: UsageFact): void;
}

/** One request to be answered by the first target that can. */
export interface AnswerRequest {
  targets: readonly Target[];
  /** The body for a target; the request is otherwise the same for each. */
  prepare(target: Target): { body: Uint8Array; hideUsage: boolean };
  stream: boolean;
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

const MAX_TRIES = 4;
const MAX_RETRY_AFTER_MS = 60_000;
const BACKOFF_MS = 250;
const MAX_BACKOFF_MS = 8_000;

/** Makes the one machine that tries targets: the proxy and the agents use it alike. */
export function createOpenAnswer(options: RouterOptions): OpenAnswer {
  const gates = new Map<string, ConcurrencyGate>();
  const gateOf = (provider: string) => {
    let gate = gates.get(provider);
    if (gate === undefined) {
      gate = new ConcurrencyGate(options.maxConcurrent(provider), options.clock);
      gates.set(provider, gate);
    }
    return gate;
  };
  return async (request) => {
    const trace: AttemptTrace[] = [];
    let failure: HubError | null = null;
    let tries = 0;
    for (const target of candidates(request.targets, options.health)) {
      if (tries >= MAX_TRIES) {
        options.health.released(target.id);
        break;
      }
      for (let retry = 0; tries < MAX_TRIES; retry++) {
        tries++;
        const leave = await gateOf(target.provider).enter({
          signal: request.signal,
          waitMs: target.timeouts.firstTokenMs,
        }).catch((error) => {
          options.health.released(target.id);
          throw error;
        });
        options.health.requested(target.provider);
        const attempt = new Attempt({
          ...request.prepare(target),
          target,
          stream: request.stream,
          signal: request.signal,
          clock: options.clock,
        });
        try {
          await attempt.open();
          options.health.succeeded(target.id);
          return createAnswer(attempt, { options, request, trace, leave });
        } catch (error) {
          leave();
          failure = toHubError(error);
          trace.push(traceOf(attempt, failure.code));
          account(attempt, { options, request, trace });
          if (request.signal.aborted || !mayFailOver(failure)) {
            options.health.released(target.id);
            throw failure;
          }
          options.health.failed(target.id);
          const next = nextDelayMs(failure, { retry, random: options.random });
          const again = failure.kind.retryable && retry < target.maxRetries && next !== null &&
            tries < MAX_TRIES && options.health.mayRetry(target.provider);
          if (!again) break;
          options.log.info("Trying a provider again", {
            target: target.id,
            error: failure,
            delayMs: next,
          });
          await sleep(options.clock, next, request.signal);
        }
      }
    }
    throw failure ?? new HubError("internal_error", "A model without targets was called");
  };
}

/**
 * The targets that do not rest, each asked when its turn has come: who asks may become a target's probe, and must then
 * try it. When all rest, the first one is tried all the same.
 */
function* candidates(targets: readonly Target[], health: TargetHealth): Generator<Target> {
  let some = false;
  for (const target of targets) {
    if (!health.allows(target.id)) continue;
    some = true;
    yield target;
  }
  const [first] = targets;
  if (!some && first !== undefined) yield first;
}

/** True when another target may do better: anything but a refusal of the request itself. */
function mayFailOver(failure: HubError): boolean {
  return failure.kind.retryable || failure.code === "upstream_unauthorized";
}

/** Full jitter, or what the provider asks for; null when that is too long to keep a client waiting. */
function nextDelayMs(
  failure: HubError,
  { retry, random }: { retry: number; random: () => number },
): number | null {
  if (failure.retryAfterMs === undefined) {
    return Math.round(random() * Math.min(MAX_BACKOFF_MS, BACKOFF_MS * 2 ** retry));
  }
  return failure.retryAfterMs <= MAX_RETRY_AFTER_MS ? failure.retryAfterMs : null;
}

interface Surroundings {
  options: RouterOptions;
  request: AnswerRequest;
  trace: AttemptTrace[];
}

function createAnswer(
  attempt: Attempt,
  surroundings: Surroundings & { leave: () => void },
): Answer {
  const { trace, leave } = surroundings;
  let ended = false;
  const end = (outcome: string) => {
    if (ended) return;
    ended = true;
    leave();
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

function account(attempt: Attempt, { options, request, trace }: Surroundings): void {
  if (!attempt.reached) return;
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
  });
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
