import type { Remember } from "../core/approval.ts";
import type { Clock } from "../core/clock.ts";
import type { ContextFact } from "../core/context_events.ts";
import type { HubEvent } from "../core/event.ts";
import type { IdSource } from "../core/id.ts";
import type { Json, JsonObject } from "../core/json.ts";
import type { Log } from "../core/log.ts";
import type { CallModel, ToolChoice } from "../core/model.ts";
import type { ModelUse } from "../core/model_use.ts";
import type { PreflightRule } from "../core/preflight.ts";
import type { RunBudget } from "../core/run_budget.ts";
import type { SubRun } from "../core/sub_run_event.ts";
import type { SteeringText } from "../core/steering.ts";
import type { ModelWindow } from "../core/tokenizer.ts";
import type { Principal, Tool, ToolContext, ToolOutput, ToolPreview } from "../core/tool.ts";
import type { UIMessage } from "../core/ui_message.ts";
import type { StructuredAnswer } from "../operations/structured_answer.ts";
import type { Usage } from "../core/usage.ts";
import type { Span } from "../telemetry/tracing.ts";
import type { ToolCallRecord } from "./loop_batch.ts";

/** What an agent's configuration says about its runs. `toolChoice.name` is a full tool name. */
export interface AgentSettings {
  name: string;
  systemPrompt: string;
  /** Most model calls of one run, at least 1. */
  maxSteps: number;
  /** Most tools of one step that run at the same time, at least 1. */
  maxParallelTools: number;
  /** Most tool calls of one answer that are taken; the others are refused. `MAX_CALLS_PER_ANSWER` when left out. */
  maxCallsPerAnswer?: number;
  temperature?: number;
  topP?: number;
  maxOutputTokens?: number;
  parallelToolCalls?: boolean;
  /** `required` and a named tool hold until the run's first tool call; held longer, no run would ever answer. */
  toolChoice?: ToolChoice;
  /** Further wire fields for the model, copied as they are. */
  extra?: JsonObject;
  /** What each run may use up. */
  budget?: RunBudget;
  /** Whether people are asked what tools want to know; true when left out. */
  questions?: boolean;
  /** When a person has to agree to a plan first; never when left out. */
  preflight?: PreflightRule;
  /** Whether a conversation that grows too long is made shorter; true when left out. */
  compaction?: boolean;
}

/** How the source of some tools says they are to be used; written once under `## TOOLS' INSTRUCTIONS`. */
export interface ToolInstructions {
  source: string;
  text: string;
  /** Who says so, where those are not the hub's own words: the model is told to take them for data. */
  saidBy?: string;
}

/** How an agent that has too many tools shows them to its model. */
export interface ToolOffer {
  /** Full names that are always offered, sorted. */
  pinned: readonly string[];
  /** Most tools that a run begins with. */
  most: number;
  /** Full names of the tools that fit a text, best first. */
  search(text: string, most: number): readonly string[];
}

/** What became of one executed call. `output` is already bounded, and stays beside a failure when the tool gave one. */
export type ToolOutcome =
  & (
    | { ok: true; output: ToolOutput }
    | {
      ok: false;
      errorText: string;
      output?: ToolOutput;
      /** It may have done its work. */
      inDoubt?: true;
    }
  )
  & {
    /** What another run has used up for it. */
    spent?: SubRun;
  };

/**
 * Runs one tool with a validated input: keeps its deadline, bounds its result, measures. Settles soon after
 * `context.signal` aborts; a rejection counts as a failed tool.
 */
export type ExecuteTool = (tool: Tool, input: Json, context: ToolContext) => Promise<ToolOutcome>;

/** Reads the argument text of a call; see `operations/parse_arguments.ts`. Never throws. */
export type ParseArguments = (
  text: string,
) => { ok: true; input: Json; repairs: readonly string[] } | { ok: false; problem: string };

/** Full tool names to names on the wire and back. `toWire` takes any name, also one of a tool that is gone by now. */
export interface WireNames {
  toWire(name: string): string;
  /** The full name, or null for a wire name that no tool of this run has. */
  fromWire(wireName: string): string | null;
}

/** A call that is about to run, for whoever may refuse it. */
export interface PermissionRequest {
  toolCallId: string;
  step: number;
  tool: Tool;
  input: Json;
  /** What the run has written so far, the calls of this step included. */
  message: UIMessage;
}

/** Whether a call may run, or a person is to say so. The reason is read by the model. */
export type Permission =
  | { allowed: true }
  /** `tainted` names where words of others came from, when these are why. */
  | { allowed: "ask"; tainted?: string[] }
  | { allowed: false; reason: string };

/** What a former owner of the run has left: its log, and the journal's rows of calls without an outcome. */
export interface RunResume {
  events: readonly HubEvent[];
  openCalls: readonly ToolCallRecord[];
  /** What people have answered, or not in time. */
  decisions: readonly Decision[];
  /** What the run has cost so far; null when that is unknown. */
  costMicros: number | null;
  /** What model calls of former owners have used that the log does not have. */
  lost?: ModelUse;
  /** A part of what the log has is an estimate. */
  estimated?: boolean;
  /** The greatest number under which a delta of the open step may have been shown that the log does not have. */
  shownTo?: number;
}

/** The answer to an `ApprovalRecord`. */
export interface Decision {
  approvalId: string;
  /** What was shown: see `shownHash`. */
  hash: string;
  outcome: "approved" | "denied" | "expired";
  reason: string | null;
  /** How far an approval reaches; null for any other answer. */
  remember: Remember | null;
  /** What was shown beside the arguments, and the state that it was made from. */
  preview: ToolPreview | null;
  shownState: string | null;
}

/** What became of a question. A form that was filled in has its `content`. */
export type GivenAnswer =
  | { state: "answered"; content?: JsonObject }
  | { state: "declined" | "expired" | "cancelled" };

/** Whoever answers what tools ask in the middle of a call. */
export interface Questions {
  /** How long a person is waited for. */
  timeoutMs: number;
  /** What becomes of a question once it is handed out. Never rejects; `cancelled` when the signal aborts before. */
  answerTo(questionId: string, signal: AbortSignal): Promise<GivenAnswer>;
}

/** Texts that users said to the run since it began. */
export interface Steering {
  /** True when a text waits for the model. */
  waits(): Promise<boolean>;
  /** Takes all texts that steer, in order; with `queued` the first one that is queued, when none steers. */
  takeNext(options: { queued: boolean }): Promise<SteeringText[]>;
  /** Takes everything. */
  takeAll(): Promise<SteeringText[]>;
  /** True when more was said than has been looked at. No end of the run is written then. */
  readonly isBehind: boolean;
}

/** Everything one run needs. The loop touches nothing else. */
export interface AgentRun {
  runId: string;
  sessionId: string;
  /** The assistant message that this run writes. */
  messageId: string;
  /** Public model name, for the `start` event. */
  model: string;
  settings: AgentSettings;
  /** Where a former owner has left the run; absent for a new one. */
  resume?: RunResume;
  /** The stored conversation, without the message in flight, superseded messages left out. */
  history: readonly UIMessage[];
  tools: readonly Tool[];
  /** How tools are shown of which there are too many; the model is shown all when absent. */
  offer?: ToolOffer;
  instructions?: readonly ToolInstructions[];
  principal: Principal;
  callModel: CallModel;
  /** What the model can read, asked before each request; nothing keeps watch over it when absent. */
  window?: () => ModelWindow;
  /** What its answer is held to; text when absent. */
  answer?: StructuredAnswer;
  /** What it may use up, beside its agent's `maxSteps`. */
  budget?: RunBudget;
  /** The most that such a call may have cost, in millionths of a US dollar; null, or left out, when nobody can tell. */
  costOf?: (usage: Usage) => number | null;
  /** How old it was when this owner began with it, in milliseconds; 0 when left out. */
  ageMs?: number;
  /** Told how much room requests leave, and what was done where it was too little. */
  observeContext?: (fact: ContextFact) => void;
  executeTool: ExecuteTool;
  parseArguments: ParseArguments;
  wireNames: WireNames;
  /** Asked for each valid call, in call order. Everything is allowed when absent. */
  permit?: (request: PermissionRequest) => Promise<Permission>;
  /** Which of calls of these tools, one behind the other, a person would be asked about. What tools say counts when absent. */
  foresee?: (tools: readonly (Tool | undefined)[]) => Promise<boolean[]>;
  /** How long a person is waited for who is asked whether a call may run. */
  approvalTimeoutMs: number;
  /** What tools ask is declined when absent. */
  questions?: Questions;
  /** Nobody says anything to the run when absent. */
  steering?: Steering;
  /** Asked before each step: true leaves the run as it stands, without an end, for another owner to go on with. */
  mustLeave?: () => boolean;
  /** How a trace tells the run; null or left out where there is none. */
  span?: Span | null;
  /** Stops the run. A string or a `HubError` as reason becomes the reason of the `abort` event. */
  signal: AbortSignal;
  clock: Clock;
  ids: IdSource;
  /** A number in [0, 1), for the jitter of retries. */
  random: () => number;
  log: Log;
}
