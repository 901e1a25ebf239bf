import { createHash } from "node:crypto";
import type { HubEvent } from "../core/event.ts";
import type { ApprovalFacts } from "../core/run_facts.ts";
import { canonicalJson, type Json } from "../core/json.ts";
import type { Tool } from "../core/tool.ts";
import type { AgentRun, Decision } from "./agent_run.ts";
import type { AskedCall, ReadyCall } from "./judge_calls.ts";
import type { ApprovalRecord, ToolCallRecord } from "./loop_batch.ts";
import type { ToolSet } from "./tool_set.ts";

/** Asks a person whether a call may run. The event tells the time by this replica's clock; Postgres' clock decides. */
export function askFor(
  run: AgentRun,
  { tool, input, record }: AskedCall,
): { event: HubEvent; approval: ApprovalRecord } {
  const { toolCallId, toolName, argsHash } = record;
  const { risk } = tool;
  const timeoutMs = run.approvalTimeoutMs;
  const approvalId = run.ids.next("apr");
  const expiresAt = new Date(run.clock.now() + timeoutMs).toISOString();
  const defHash = definitionHash(tool);
  const asked = { approvalId, toolCallId, toolName, risk };
  return {
    event: { type: "tool-approval-request", ...asked, input, expiresAt },
    approval: { ...asked, argsHash, defHash, timeoutMs },
  };
}

/** What a call that was asked for becomes once there is an answer. */
export type Decided =
  | { kind: "ready"; events: HubEvent[]; call: ReadyCall }
  | { kind: "denied"; events: HubEvent[]; record: ToolCallRecord };

/** Reads an answer, which counts only for what was shown: the same tool by its own words, and the same arguments. */
export function decide(
  { record, approval }: { record: ToolCallRecord; approval: ApprovalFacts },
  decision: Decision,
  tools: ToolSet,
): Decided {
  const { approvalId, outcome } = decision;
  const { toolCallId, input } = record;
  const isApproved = outcome === "approved";
  const reason = outcome === "expired" ? "expired" : decision.reason;
  const response: HubEvent = {
    type: "tool-approval-response",
    approvalId,
    approved: isApproved,
    ...(reason === null ? {} : { reason }),
  };
  // An answer is in the log with what became of its call; the call alone may be left.
  const events: HubEvent[] = approval.response === undefined ? [response] : [];
  const tool = tools.find(record.toolName);
  const isAsShown = tool !== undefined && input !== null && shownHash({
        toolName: record.toolName,
        argsHash: record.argsHash,
        defHash: definitionHash(tool),
      }) === decision.hash;
  if (isApproved && isAsShown) {
    const call: ReadyCall = { kind: "ready", tool, input, record: { ...record, state: "ready" } };
    return { kind: "ready", events, call };
  }
  const errorText = isApproved
    ? `Not executed: ${record.toolName} is not what it was when it was approved`
    : describeDenial(decision);
  events.push({ type: "tool-output-denied", toolCallId, errorText });
  return { kind: "denied", events, record: { ...record, state: "denied", errorText } };
}

function describeDenial({ outcome, reason }: Decision): string {
  if (outcome === "expired") return "Not executed: nobody approved it in time";
  return reason === null || reason === ""
    ? "Not executed: a person denied it"
    : `Not executed: a person denied it: ${reason}`;
}

/** SHA-256, hex, of what stands behind a question: an answer holds for exactly this. */
export function shownHash(
  { toolName, argsHash, defHash }: Pick<ApprovalRecord, "toolName" | "argsHash" | "defHash">,
): string {
  return hashOf({ toolName, argsHash, defHash });
}

/** SHA-256, hex, of what a tool says of itself. */
export function definitionHash(
  { name, description, inputSchema, effect, risk }: Tool,
): string {
  return hashOf({ name, description, inputSchema, effect, risk });
}

function hashOf(value: Json): string {
  return createHash("sha256").update(canonicalJson(value)).digest("hex");
}
