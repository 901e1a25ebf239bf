import { HubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import type { Attempt } from "./attempt.ts";
import type { AttemptTrace, CallFacts } from "./usage_fact.ts";

/** Header of an answer that tells which targets were tried. */
export const ATTEMPTS_HEADER = "x-loophub-attempts";

const MAX_SHOWN = 8;
const MAX_NAME = 80;

/**
 * The tries in order, in visible ASCII: `target;outcome;status;ms` each, a pool's key behind the target as `#2`, `-`
 * for no status, `;resent` at the end of one whose request was sent twice. Only the last eight are told, behind `+N` for the others.
 */
function trailOf(attempts: readonly AttemptTrace[]): string {
  const left = attempts.length - MAX_SHOWN;
  const shown = left > 0 ? attempts.slice(left) : attempts;
  const tries = shown.map(({ target, key, outcome, status, durationMs, resent }) => {
    const name = `${toName(target)}${key === undefined ? "" : `#${key}`}`;
    const fields = [name, outcome, status ?? "-", durationMs, ...(resent ? ["resent"] : [])];
    return fields.join(";");
  });
  return (left > 0 ? [`+${left}`, ...tries] : tries).join(", ");
}

/** The trail of an answer that has begun, its own try included. */
export function trailOfAnswer(
  { attempt, attempts }: { attempt: Attempt; attempts: readonly AttemptTrace[] },
): string {
  if (attempts.at(-1)?.outcome === "ok") return trailOf(attempts);
  const durationMs = attempt.firstTokenMs ?? attempt.durationMs;
  return trailOf([...attempts, { ...traceOf(attempt, "ok"), durationMs }]);
}

/** One try as the trace keeps it. */
export function traceOf(attempt: Attempt, outcome: string): AttemptTrace {
  const { target: { id, key }, status, durationMs, resent } = attempt;
  const told = { outcome, status, durationMs, ...(resent ? { resent } : {}) };
  return key === undefined ? { target: id, ...told } : { target: id, key: key.number, ...told };
}

/** A name in visible ASCII, without what separates names here. */
function toName(text: string): string {
  if (/^[\w./:@-]{1,80}$/.test(text)) return text;
  return text.toWellFormed().slice(0, MAX_NAME).toWellFormed()
    .replace(/[^!-~]|[#%,;+]/gu, (sign) => encodeURIComponent(sign));
}

/** The answer; how it came about is logged, at `info` when it took more than one try. */
export function tellAnswer<T extends { attempt: Attempt; attempts: readonly AttemptTrace[] }>(
  answer: T,
  facts: CallFacts,
  log: Log,
): T {
  const level = answer.attempts.length > 0 ? "info" : "debug";
  if (!log.writes(level)) return answer;
  const { requestId, publicModel } = facts;
  log[level]("A model answers", { requestId, publicModel, attempts: trailOfAnswer(answer) });
  return answer;
}

/** The failure of a request, with the tries that led to it for the client and the log. */
export function tellFailure(
  error: unknown,
  { request: { facts, signal }, trace, log }: {
    request: { facts: CallFacts; signal: { aborted: boolean } };
    trace: readonly AttemptTrace[];
    log: Log;
  },
): unknown {
  // A client that left reads nothing, and its reason is shared.
  if (trace.length === 0 || signal.aborted || !(error instanceof HubError)) return error;
  const attempts = trailOf(trace);
  error.headers = { ...error.headers, [ATTEMPTS_HEADER]: attempts };
  const { requestId, publicModel } = facts;
  // Of these there are many at a time.
  const level = error.code === "overloaded" ? "debug" : "info";
  if (log.writes(level)) log[level]("No target answers", { requestId, publicModel, attempts });
  return error;
}
