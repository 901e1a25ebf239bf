import type { Clock } from "../core/clock.ts";
import { usageOf } from "../router/attempt_span.ts";
import type { Span, Tracing } from "../telemetry/tracing.ts";
import type { LiveRun } from "./live_run.ts";
import type { RecordedRun } from "./recorder.ts";

/** A run that begins, here or anew. */
interface Begun {
  record: RecordedRun;
  agent: { model: string };
  requestId: string;
  /** Of a run that is taken over. */
  resume?: unknown;
  /** Of its request, null when that is not traced; left out where there is none. */
  parent?: Span | null;
}

/** Begins the span of a run, or of what is left of one that is taken over; null where it is not traced. */
export function startRunSpan(
  { record, agent, requestId, resume, parent }: Begun,
  { tracing = null, clock }: { tracing?: Tracing | null; clock: Clock },
): Span | null {
  const place = parent === undefined ? tracing : parent;
  if (place === null) return null;
  const name = `invoke_agent ${record.agent}`;
  const start = {
    kind: "internal" as const,
    startMs: clock.now(),
    attributes: {
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.agent.name": record.agent,
      "gen_ai.request.model": agent.model,
      "gen_ai.conversation.id": record.sessionId,
      "loophub.run_id": record.runId,
      "loophub.request_id": requestId,
      "loophub.resumed": resume === undefined ? null : true,
    },
  };
  return "child" in place ? place.child(name, start) : place.start(name, start);
}

/** Ends it with the run: finished, or left to another replica. */
export async function endRunSpan(span: Span, { done, fold }: LiveRun, clock: Clock): Promise<void> {
  await done;
  const { answeredBy, usage, finishReason, costMicros, error, steps } = fold.facts();
  span.end({
    endMs: clock.now(),
    error: error?.code ?? null,
    attributes: {
      "gen_ai.provider.name": answeredBy?.provider,
      "gen_ai.response.model": answeredBy?.model,
      "gen_ai.response.finish_reasons": finishReason === null ? null : [finishReason],
      ...usageOf(usage),
      "loophub.cost_micros": costMicros,
      "loophub.steps": steps.length,
      "loophub.left": finishReason === null ? true : null,
    },
  });
}
