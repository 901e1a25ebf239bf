import type { Clock } from "../core/clock.ts";
import type { Span } from "../telemetry/tracing.ts";
import type { AgentRun, ToolOutcome } from "./agent_run.ts";
import type { ReadyCall } from "./judge_calls.ts";

/** Begins the span of a tool call; null where the run is not traced. */
export function startToolSpan(
  { span, clock, settings, sessionId }: AgentRun,
  { record: { toolCallId, toolName }, input }: ReadyCall,
): Span | null {
  if (span === null || span === undefined) return null;
  return span.child(`execute_tool ${toolName}`, {
    kind: "internal",
    startMs: clock.now(),
    attributes: {
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": toolName,
      "gen_ai.tool.type": "function",
      "gen_ai.tool.call.id": toolCallId,
      "gen_ai.agent.name": settings.name,
      "gen_ai.conversation.id": sessionId,
      "gen_ai.tool.call.arguments": span.body(() => JSON.stringify(input)),
    },
  });
}

/** Ends it. */
export function endToolSpan(
  span: Span,
  { outcome, clock, stopped }: { outcome: ToolOutcome; clock: Clock; stopped: boolean },
): void {
  const error = stopped ? "aborted" : "tool_failed";
  span.end({
    endMs: clock.now(),
    error: outcome.ok ? null : error,
    attributes: {
      "gen_ai.tool.call.result": span.body(() =>
        outcome.ok ? JSON.stringify(outcome.output) : outcome.errorText
      ),
    },
  });
}
