import type { AbortLike } from "../core/abort.ts";
import { type Clock, sleep } from "../core/clock.ts";
import type { Deadlines } from "../core/deadlines.ts";
import { HubError, toHubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import type { ModelUse } from "../core/model_use.ts";
import type { Hold, MeteredCall } from "../core/metered_call.ts";
import type { Target } from "../providers/target.ts";
import type { Span } from "../telemetry/tracing.ts";
import type { Redact } from "../wire/provider_text.ts";
import { type Answer, createAnswer } from "./answer.ts";
import { Attempt } from "./attempt.ts";
import type { Begun, Prepared } from "./attempt_options.ts";
import { AttemptSpan } from "./attempt_span.ts";
import { tellAnswer, tellFailure, traceOf } from "./attempt_trail.ts";
import { Balancer, type Plan, type Routed } from "./balancer.ts";
import * as failover from "./failover.ts";
import { account, begunFact } from "./account.ts";
import { type Arm, race } from "./hedge.ts";
import { holdFor, type Meter } from "./meter.ts";
import { redactFor } from "./redact_target.ts";
import type { TargetGates } from "./target_gates.ts";
import type { TargetHealth } from "./target_health.ts";
import type { AttemptTrace, BegunFact, CallFacts, UsageFact } from "./usage_fact.ts";
import { usageIdOf } from "./usage_id.ts";

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
  /** A new id of a usage row. */
  nextUsageId(): string;
  /** Called once for each attempt that reached a provider. Must not throw; an urgent row is waited for. */
  recordUsage(fact: UsageFact, isUrgent: boolean): Promise<void> | void;
  /** Called right before a call of a run is sent. Must not throw. */
  noteBegun?(begun: BegunFact): void;
  /** Told of each further try of a target, and of each target that is left for the next one since it failed. */
  onRetry?(target: Target): void;
  onFailover?(target: Target): void;
}

/** One request to be answered by the first target that can. */
export interface AnswerRequest extends Routed {
  /** The request for a target, in a dialect that it serves. */
  prepare(target: Target): Prepared | Promise<Prepared>;
  /** No other try once a provider has begun to get it. */
  once?: boolean;
  /** Choices asked for; 1 unless told. */
  choices?: number;
  signal: AbortLike;
  facts: CallFacts;
  /** Called for each try that a provider is to be paid for, with what its usage row has. */
  onUsed?(use: ModelUse): void;
  /** Whose part it is in a trace; null or left out where there is none. */
  span?: Span | null;
}

export type { Answer };

/** Opens an answer. */
export type OpenAnswer = (request: AnswerRequest) => Promise<Answer>;

/** Further tries of one request, over all its targets; the first try of each target is not counted. */
const MAX_RETRIES = 3;

/** Makes the one machine that tries targets: the proxy and the agents use it alike. */
export function createOpenAnswer(options: RouterOptions): OpenAnswer {
  const { clock, deadlines, gates, health, log, redact } = options;
  const balancer = new Balancer(options);
  const ground = { health, balancer };
  /** False when no place at the target came free in time. */
  const enter = async (call: Calling, target: Target): Promise<boolean> => {
    const { signal } = call.request;
    const startedMs = clock.monotonic();
    try {
      await gates.enter(target, signal);
      return true;
    } catch (error) {
      if (signal.aborted) throw error;
      call.failure ??= toHubError(error);
      const durationMs = Math.round(clock.monotonic() - startedMs);
      call.trace.push({ target: target.id, outcome: "overloaded", status: null, durationMs });
      return false;
    }
  };
  /** Leave for a try, null for a call that needs none; undefined when this target gets none. */
  const ask = async (
    call: Calling,
    tried: { target: Target; usageId: string; prepared: Prepared; signal: AbortLike },
  ): Promise<Hold | null | undefined> => {
    const { metered, request: { choices = 1, facts } } = call;
    if (metered === null || options.meter === undefined) return null;
    let hold: Hold | undefined;
    try {
      const asked = await holdFor(metered, { ...tried, choices, meter: options.meter, facts });
      if ("hold" in asked) hold = asked.hold;
      else call.failure = asked.failure;
      return hold;
    } finally {
      if (hold === undefined) {
        gates.leave(tried.target);
        failover.release(tried.target, health, call);
      }
    }
  };
  /** Null when the target's dialect cannot carry the request; another one's may. */
  const prepareFor = async (call: Calling, target: Target): Promise<Prepared | null> => {
    try {
      return await call.request.prepare(target);
    } catch (error) {
      gates.leave(target);
      failover.release(target, health, call);
      const failure = toHubError(error);
      if (failure.code !== "invalid_request") throw error;
      call.trace.push({ target: target.id, outcome: failure.code, status: null, durationMs: 0 });
      return failover.refused(failure, call);
    }
  };
  const begin = (
    call: Calling,
    { target, prepared, signal, usageId, hold }: {
      target: Target;
      prepared: Prepared;
      signal: AbortLike;
      usageId: string;
      hold: Hold | null;
    },
  ): Attempt => {
    const { stream, choices = 1, facts: { call: runCall } } = call.request;
    const own = hold === null ? {} : { ownHeaders: hold.headers };
    const tried = { target, prepared, number: call.trace.length, clock };
    const span = AttemptSpan.start(call.request, tried);
    const told = span === null ? {} : { span, headers: span.headers(prepared.headers) };
    const noting = runCall === undefined ? {} : {
      onSend: (begun: Begun) => {
        const price = target.override.pricing ?? null;
        const fact = begunFact(begun, { request: call.request, usageId, hold });
        options.noteBegun?.({ fact, call: runCall, price });
      },
    };
    const shared = { clock, deadlines, redact: redactFor(target, redact) };
    const asked = { ...prepared, ...shared, ...own, ...told, ...noting };
    return new Attempt({ ...asked, target, stream, choices, signal });
  };
  /**
   * Tries a target, at which there is a place, until it answers or is not worth another try: then null. One of two at the
   * same time is tried once.
   */
  const tryTarget = async (call: Calling, target: Target, arm?: Arm): Promise<Answer | null> => {
    if (call.failed !== null) options.onFailover?.(call.failed);
    call.failed = null;
    const { request, trace } = call;
    const signal = arm?.signal ?? request.signal;
    const prepared = await prepareFor(call, target);
    if (prepared === null) return null;
    for (let retry = 0;; retry++) {
      const usageId = usageIdOf(request.facts, { number: call.tries++, ...options });
      const hold = call.metered === null
        ? null
        : await ask(call, { target, usageId, prepared, signal });
      if (hold === undefined) return null;
      health.requested(target.provider);
      const attempt = begin(call, { target, prepared, signal, usageId, hold });
      if (arm !== undefined) arm.attempt = attempt;
      try {
        await attempt.open();
        failover.passed(target, health, call);
        if (call.plan !== null) balancer.learn(attempt, "answered");
        return createAnswer(attempt, { options, request, usageId, trace, arm, hold });
      } catch (error) {
        const failure = toHubError(error);
        const mayHelp = !signal.aborted && failover.mayFailOver(failure);
        if (call.plan !== null && mayHelp) balancer.learn(attempt, "failed");
        gates.leave(target);
        if (arm?.lost !== true) trace.push(traceOf(attempt, failure.code));
        await account(attempt, { options, request, usageId, trace, hold });
        if (!mayHelp) {
          failover.release(target, health, call);
          if (!failover.isDialectRefusal(failure, attempt)) throw failure;
          return failover.refused(failure, call);
        }
        call.failure = failure;
        call.failed = target;
        failover.failed(target, { failure, health, journey: call });
        if (request.once === true && attempt.reached) throw failure;
        const delayMs = arm === undefined && call.retriesLeft > 0
          ? failover.retryDelayMs(failure, { retry, attempt, random: options.random })
          : null;
        const isPassedOver = failover.isPassedOver(target, { failure, health, journey: call });
        if (delayMs === null || isPassedOver || !health.mayRetry(target.provider)) return null;
        call.retriesLeft--;
        options.onRetry?.(target);
        log.info("Trying a provider again", {
          requestId: request.facts.requestId,
          target: target.id,
          error: failure,
          delayMs,
        });
        await sleep(clock, delayMs, signal);
        if (!await enter(call, target)) return null;
        call.failed = null;
      } finally {
        if (arm !== undefined) arm.attempt = null;
      }
    }
  };
  /** As `tryTarget`; when the target is late, one more of the model's own is asked beside it. */
  const tryHedged = (call: Calling, target: Target, plan: Plan): Promise<Answer | null> => {
    const { request, trace } = call;
    const { hedge, targets, ownCount } = plan;
    const delayMs = hedge === null ? null : balancer.hedgeAfterMs(hedge, target, request.stream);
    const at = targets.findIndex(({ id }) => id === target.id);
    const others = targets.slice(at + 1, Math.max(at + 1, ownCount));
    if (hedge === null || delayMs === null || others.length === 0) return tryTarget(call, target);
    return race<Answer>({
      clock,
      client: request.signal,
      delayMs,
      first: (arm) => tryTarget(call, target, arm),
      second(arm) {
        const { budget } = hedge;
        const other = failover.pickBeside(others, { ...ground, journey: call, gates, budget });
        return other === null ? null : tryTarget(call, other, arm);
      },
      onLost(attempt) {
        trace.push(traceOf(attempt, "aborted"));
        balancer.learn(attempt, "givenUp");
      },
    });
  };
  return async (request) => {
    const plan = balancer.plan(request);
    const call: Calling = {
      request,
      plan,
      metered: options.meter?.enter(request.facts) ?? null,
      targets: plan?.targets ?? request.targets,
      trace: [],
      tries: 0,
      failure: null,
      failed: null,
      refusal: null,
      retriesLeft: MAX_RETRIES,
      probes: null,
      spent: null,
      keyFailed: false,
      refusals: 0,
    };
    let full: Target[] | null = null;
    try {
      for (const target of failover.candidates(call, ground)) {
        if (!gates.tryEnter(target)) {
          failover.release(target, health, call);
          full ??= [];
          full.push(target);
          continue;
        }
        const answer = await (plan === null || plan.hedge === null
          ? tryTarget(call, target)
          : tryHedged(call, target, plan));
        if (answer !== null) {
          return tellAnswer(answer, request.facts, log);
        }
      }
      // Nobody else has answered, so that a place at the others is worth a wait.
      for (const target of full ?? []) {
        const answer = await enter(call, target) ? await tryTarget(call, target) : null;
        if (answer !== null) return tellAnswer(answer, request.facts, log);
      }
      throw call.failure ?? call.refusal ??
        new HubError("internal_error", "A model without targets was called");
    } catch (error) {
      throw tellFailure(error, { ...call, log });
    }
  };
}

/** What is known of a request while its targets are tried. */
interface Calling extends failover.Journey {
  request: AnswerRequest;
  plan: Plan | null;
  metered: MeteredCall | null;
  trace: AttemptTrace[];
  /** Usage ids given so far, of tries that were refused too. */
  tries: number;
  failure: HubError | null;
  /** The target that failed last, until another one is tried. */
  failed: Target | null;
  retriesLeft: number;
}
