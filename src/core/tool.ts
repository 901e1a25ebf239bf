import type { Clock } from "./clock.ts";
import type { Json, JsonObject, JsonSchema } from "./json.ts";
import type { Log } from "./log.ts";
import type { AnswerReach, SessionReach } from "./ownership.ts";
import type { BudgetLeft, RunBudget } from "./run_budget.ts";
import type { SubRun } from "./sub_run_event.ts";

/**
 * What running a tool twice does. `pure`: nothing happens outside. `idempotent`: the second run with the same
 * idempotency key changes nothing more. `effect`: never run again when the outcome is unknown.
 */
export type ToolEffect = "pure" | "idempotent" | "effect";

/**
 * Whether a person is asked before a call: nobody; a person, who may say that the answer holds for more; the same, and an
 * approval holds for the session unless it says otherwise; a person before each single call.
 */
export type ToolApproval = "never" | "ask" | "session" | "always";

/** How much harm a wrong call does; shown to whoever approves. */
export type ToolRisk = "low" | "medium" | "high";

/**
 * A piece of a rich tool result. `data` is base64. A `file` is what neither is text nor an image that models take; whoever
 * runs the tool keeps it and has a `resource` that leads to it in its place.
 */
export type ToolContent =
  | { type: "text"; text: string }
  | { type: "json"; value: Json }
  | { type: "image"; mediaType: string; data: string }
  | { type: "resource"; uri: string; mediaType?: string; title?: string }
  | { type: "file"; mediaType: string; data: string; title: string; uri?: string };

/** What a tool gives back: content in order. A failed tool throws, or sets `isError` with content the model reads. */
export interface ToolResult {
  content: ToolContent[];
  isError?: boolean;
  /** What another run has used up for it. */
  spent?: SubRun;
  /** What an MCP server answered, for whoever passes it on as it is; never stored. */
  original?: JsonObject;
}

/**
 * A result as events, rows and history carry it: a string is plain text, an object with `type: "content"` holds
 * several pieces, anything else is the JSON value itself.
 */
export type ToolOutput = Json;

/** The agent and the chat that a browser token is for. */
export interface ChatScope {
  agent: string;
  /** As clients name it: the external id of its session. */
  chatId: string;
}

/** Who calls. Made by `policy/authenticate`, never by default. */
export interface Principal {
  tenantId: string;
  keyId: string;
  keyName: string;
  /** By these, rules of public models tell keys apart; left out where the key has none. */
  tags?: readonly string[];
  /** Keys with the same owner share what they make; left out where the key has none. */
  owner?: string;
  /** What it reaches of its tenant's sessions; `owner` when left out. */
  sessions?: SessionReach;
  /** Whose runs it may answer for; all that it reaches when left out. */
  answers?: AnswerReach;
  /** `admin` keys manage the hub; `user` keys call models and agents. */
  role: "user" | "admin";
  /** All that it may use, when it came with a browser token; left out for callers who have the key itself. */
  scope?: ChatScope;
}

/** What a tool wants of whoever called it, in the middle of the call: a form to be filled in, an address to be opened, a model that may be asked. */
export type ToolQuestion =
  & { source: string; message: string }
  & (
    | { kind: "form"; schema: JsonObject }
    | { kind: "url"; url: string; id: string }
    | { kind: "sampling"; model: string; maxTokens: number }
  );

/** The answer to a question. */
export type ToolAnswer =
  | { action: "accept"; content?: JsonObject }
  | { action: "decline" | "cancel" };

/** A caller who is asked by the result of a call, and then calls again with the answers (MCP's `input_required`). */
export interface CallingAgain {
  /** What it can be asked, in MCP's words. */
  capabilities: JsonObject;
  /** Its answers to what the call before has asked. */
  responses?: JsonObject;
  /** What that call has handed out with it. */
  state?: string;
}

/** What a tool says of its work in the middle of the call, for whoever called. */
export interface ToolMessage {
  /** One of syslog's, as MCP names them. */
  level: string;
  /** Who says it, in the author's words. */
  logger?: string;
  data: Json;
}

/** Everything a tool may touch; there is nothing global. */
export interface ToolContext {
  signal: AbortSignal;
  clock: Clock;
  log: Log;
  principal: Principal;
  sessionId: string;
  runId: string;
  toolCallId: string;
  agent: string;
  /** The same for every execution of this call, also after a takeover. */
  idempotencyKey: string;
  /** The state that whoever approved this call was shown, where a person was asked and a preview had one. */
  shownState?: string | undefined;
  /** What the run may still use up; null, or left out, where it has no bounds. */
  left?: () => RunBudget | null;
  /** Sends progress to whoever watches the run; not stored. */
  progress(data: Json): void;
  /** Says something to whoever called; left out where nobody listens. */
  tell?: ((message: ToolMessage) => void) | undefined;
  /** Asks whoever called, who may answer until the signal aborts; left out where nobody can be asked. */
  ask?: ((question: ToolQuestion, signal: AbortSignal) => Promise<ToolAnswer>) | undefined;
  /** What the run may still use for models that its tools ask; left out outside of runs. */
  budget?: BudgetLeft | undefined;
  /** Set where whoever called is asked by the result instead, which has it in `original` then. */
  again?: CallingAgain | undefined;
  /** Has whoever called ask a model, in the words of MCP's `sampling/createMessage`; left out where nobody can. */
  sample?: ((params: JsonObject) => Promise<Json>) | undefined;
}

/** What a call is about to do, for whoever approves it. Of what is cut, the call's arguments have the rest. */
export type ToolPreview =
  | { kind: "diff"; path: string; diff: string; isCut?: true }
  | { kind: "command"; argv: string[]; cwd: string; isCut?: true }
  | { kind: "text"; text: string };

/** A preview, and the state that it was made from: whoever approves it approves nothing else. */
export interface ShownCall {
  preview: ToolPreview;
  state?: string;
}

/** Why arguments do not fit a schema. `path` is a JSON pointer, `""` for the root. */
export interface ToolInputProblem {
  path: string;
  wanted: string;
  got: string;
}

/** What a tool's author says of its effects. */
export interface ToolHints {
  destructiveHint?: boolean;
  openWorldHint?: boolean;
}

/** What a tool has to do with the world outside of the hub, whose words nobody has looked at. */
export interface ToolOutside {
  /** Names where its results come from, for people. */
  source: string;
  /** The same of one call, where its arguments say so. */
  sourceOf?(input: Json): string;
  /** Whether its arguments go there, so that a call tells somebody something, though it changes nothing. */
  sends: boolean;
}

/** An operation or an MCP tool: the loop sees one kind of tool. */
export interface Tool {
  /** Full name, `namespace.name`. */
  name: string;
  description: string;
  /** What people read in place of the name; left out where there is none. */
  title?: string;
  /** What the author says of its effects beside `effect`, for whoever lists it to others. */
  hints?: ToolHints;
  /** Schema of the input as its author wrote it. */
  inputSchema: JsonSchema;
  /** Schema of the result where its author has said one. */
  outputSchema?: JsonSchema;
  /** Left out where its results hold nobody's words but the hub's and the caller's. */
  outside?: ToolOutside;
  /** Tells where it runs, and what it is held to there: an approval holds for no other place. */
  place?: string;
  /** Means something inside of a run only. */
  inRunsOnly?: boolean;
  /** Schema and strictness as sent to models; see `operations/openai_tool.ts`. */
  parameters: JsonSchema;
  strict: boolean;
  effect: ToolEffect;
  approval: ToolApproval;
  risk: ToolRisk;
  timeoutMs: number;
  /** Never together with another call of its step. */
  sequential: boolean;
  /** Repeating the same call is its purpose: exempt from doom-loop detection. */
  polling: boolean;
  /** Checks and coerces arguments (string to number, boolean or JSON only where the schema wants it). Never throws. */
  validate(
    input: Json,
  ): { ok: true; input: Json } | { ok: false; problems: ToolInputProblem[] };
  /**
   * Says what a call would do, before a person is asked. Rejects where it could not be done. A call that is approved then
   * is given the state back, and does nothing when that has changed.
   */
  preview?(input: Json, context: Pick<ToolContext, "signal">): Promise<ShownCall>;
  /** Runs with a validated input. Rejects with an error whose message the model may read. */
  execute(input: Json, context: ToolContext): Promise<ToolResult>;
}
