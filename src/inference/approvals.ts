import type { HubEvent } from "../core/event.ts";
import { visibleText } from "../core/visible_text.ts";
import type { ApprovalFacts } from "../core/run_facts.ts";
import { preflightEvent, PROPOSE_PLAN, type ShownPlan, toJson } from "../core/preflight.ts";
import type { ShownCall } from "../core/tool.ts";
import type { AgentRun, Decision } from "./agent_run.ts";
import { definitionHash, hashOf } from "./definition_hash.ts";
import type { AskedCall, ReadyCall } from "./judge_calls.ts";
import type { ApprovalRecord, ToolCallRecord } from "./loop_batch.ts";
import { riskOf } from "./preflight.ts";
import type { ToolSet } from "./tool_set.ts";

/** Asks a person whether a call may run, or to agree to the plan that it proposes. The event tells the time by this replica's clock; Postgres' clock decides. */
export function askFor(
  run: AgentRun,
  { tool, input, record, shown, tainted }: AskedCall,
  { plan, timeLeftMs }: { plan: ShownPlan | null; timeLeftMs: number },
): { events: HubEvent[]; approval: ApprovalRecord } {
  const { toolCallId, toolName, argsHash } = record;
  const risk = plan === null ? tool.risk : riskOf(plan);
  // Asked though the tool wants nobody to be: whoever asked has reasons that no tool can know. A plan is agreed to once.
  const tier = plan !== null ? "always" : tool.approval === "never" ? "ask" : tool.approval;
  const planMs = plan === null ? undefined : run.settings.preflight?.timeoutMs;
  const timeoutMs = Math.min(planMs ?? run.approvalTimeoutMs, Math.ceil(timeLeftMs));
  const approvalId = run.ids.next("apr");
  const expiresAt = new Date(run.clock.now() + timeoutMs).toISOString();
  const defHash = definitionHash(tool);
  const asked = { approvalId, toolCallId, toolName, risk, tier };
  return {
    events: [
      ...(plan === null ? [] : [preflightEvent(approvalId, plan)]),
      {
        type: "tool-approval-request",
        ...asked,
        ...(tainted.length === 0 ? {} : { tainted: tainted.map((place) => visibleText(place)) }),
        ...(shown === null ? {} : { preview: shown.preview }),
        input,
        expiresAt,
      },
    ],
    approval: {
      ...{ ...asked, ...shownOf(shown), tainted, argsHash, defHash, timeoutMs },
      ...(plan === null ? {} : { plan: toJson(plan) }),
    },
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
  const { remember } = decision;
  const response: HubEvent = {
    type: "tool-approval-response",
    approvalId,
    approved: isApproved,
    ...(reason === null ? {} : { reason }),
    ...(remember === null || remember === "once" ? {} : { remember }),
  };
  // An answer is in the log with what became of its call; the call alone may be left.
  const events: HubEvent[] = approval.response === undefined ? [response] : [];
  const tool = tools.find(record.toolName);
  const { preview, shownState } = decision;
  const isAsShown = tool !== undefined && input !== null && shownHash({
        preview,
        shownState,
        toolName: record.toolName,
        argsHash: record.argsHash,
        defHash: definitionHash(tool),
      }) === decision.hash;
  if (isApproved && isAsShown) {
    const ready = { ...record, state: "ready" as const };
    return {
      kind: "ready",
      events,
      call: { kind: "ready", tool, input, record: ready, ...stateOf(decision) },
    };
  }
  const errorText = isApproved
    ? `Not executed: ${record.toolName} is not what it was when it was approved`
    : describeDenial(approval, decision);
  events.push({ type: "tool-output-denied", toolCallId, errorText });
  return { kind: "denied", events, record: { ...record, state: "denied", errorText } };
}

function describeDenial(asked: ApprovalFacts, { outcome, reason }: Decision): string {
  if (outcome === "expired") {
    return `Not executed: nobody approved it in time. ${settingsFor(asked)}`;
  }
  return reason === null || reason === ""
    ? "Not executed: a person denied it"
    : `Not executed: a person denied it: ${reason}`;
}

/** What an operator may set where no person can answer such a question. */
function settingsFor({ toolName, tainted = [] }: ApprovalFacts): string {
  if (toolName === PROPOSE_PLAN) {
    return "Where people need longer, set runs.approvalTimeoutMs or the agent's preflight.timeoutMs; where nobody is there, run without preflight";
  }
  const unasked = `a rule for ${toolName} with the tier "auto" in the agent's approvals.rules`;
  const read = `approvals.tainted "allow", as the run has read what others wrote`;
  return `Where people need longer, set runs.approvalTimeoutMs; where nobody is there, set ${
    tainted.length === 0 ? unasked : `${unasked}, and ${read}`
  }`;
}

/** The state that an approval was given for, as the call that it lets run has it. */
export function stateOf({ shownState }: Pick<Decision, "shownState">): { shownState?: string } {
  return shownState === null ? {} : { shownState };
}

function shownOf(shown: ShownCall | null): Pick<ApprovalRecord, "preview" | "shownState"> {
  return { preview: shown?.preview ?? null, shownState: shown?.state ?? null };
}

/** SHA-256, hex, of what stands behind a question: an answer holds for exactly this. */
export function shownHash(
  { toolName, argsHash, defHash, preview, shownState }: Pick<
    ApprovalRecord,
    "toolName" | "argsHash" | "defHash" | "preview" | "shownState"
  >,
): string {
  const asked = { toolName, argsHash, defHash };
  return hashOf(preview === null ? asked : { ...asked, preview: { ...preview }, shownState });
}
