import { Counter, Histogram, type Registry } from "prom-client";
import { createLabelBound } from "./label_bound.ts";
import { toSeconds } from "./to_seconds.ts";

/** A tool call that ended. */
interface ToolCallFact {
  tool: string;
  outcome: string;
  durationMs: number;
}

const TOOL_SECONDS = [0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60, 300];

/** Tool calls, as metrics show them. */
export function createToolMetrics(registers: Registry[]): (fact: ToolCallFact) => void {
  const bound = createLabelBound();
  const calls = new Counter({
    name: "loophub_tool_calls_total",
    help: "Tool calls that ended, by how",
    labelNames: ["tool", "outcome"],
    registers,
  });
  const seconds = new Histogram({
    name: "loophub_tool_call_seconds",
    help: "Duration of tool calls, in seconds",
    labelNames: ["tool"],
    buckets: TOOL_SECONDS,
    registers,
  });
  return ({ tool, outcome, durationMs }) => {
    const label = bound("tool", tool);
    calls.inc({ tool: label, outcome: bound("outcome", outcome) });
    seconds.observe({ tool: label }, toSeconds(durationMs));
  };
}
