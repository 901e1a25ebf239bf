import type { CostBound, Price } from "../core/cost.ts";
import type { HubError } from "../core/error.ts";
import type { Usage } from "../core/usage.ts";

/** One try on one target, for the trace. */
export interface AttemptTrace {
  /** `provider/model`. */
  target: string;
  /** Which key of the provider's pool, from 1; left out where there is one key. */
  key?: number;
  /** `ok`, or the error code it ended with. */
  outcome: string;
  /** HTTP status of the upstream, null when none came. */
  status: number | null;
  durationMs: number;
  /** Sent again within the try: the server had ended the kept connection. */
  resent?: true;
}

/** What was asked for: a chat, a step of a run, or the part of the API that a request belongs to. */
export type UsageKind = "proxy" | "run" | ProxiedKind;

/** Parts of OpenAI's API beside chat. */
export type ProxiedKind =
  | "embeddings"
  | "completions"
  | "images"
  | "audio"
  | "videos"
  | "moderations"
  | "rerank"
  | "files"
  | "uploads"
  | "batches"
  | "vector_stores"
  | "fine_tuning";

/** Who asked, as usage rows carry it. */
export interface CallFacts {
  requestId: string;
  tenantId: string;
  keyId: string;
  kind: UsageKind;
  publicModel: string;
  sessionId?: string;
  runId?: string;
  step?: number;
  /** Whose run, for budgets of agents. */
  agent?: string;
  /** For budgets and rates of tokens; `tokens` unless told. */
  bound?: CostBound;
  /** Which call of its run; only for calls that the run's next owner books when this one is lost. */
  call?: RunCall;
}

/** A model call of a run, as every replica can name it. */
export interface RunCall {
  /** Of the owner that makes it. */
  epoch: number;
  /** No other call of this owner has it: with the number of the try, it gives the id of the usage row. */
  name: string;
  /** Whether its answer goes into the run's log. */
  isLogged: boolean;
}

/** How an attempt that reached a provider ended. */
export type UsageOutcome = "ok" | "error" | "aborted" | "cut" | "timeout";

/** The terminal fact of one attempt that reached a provider: one usage row. */
export interface UsageFact extends CallFacts {
  provider: string;
  model: string;
  streamed: boolean;
  outcome: UsageOutcome;
  status: number | null;
  errorCode: string | null;
  /** Null when nothing was produced, or nobody can tell how much. */
  usage: Usage | null;
  /** True when the numbers are the hub's own: tokens for bytes, or the cost that was reserved. */
  estimated: boolean;
  costMicros: number | null;
  /** Milliseconds since the epoch. */
  startedAt: number;
  firstTokenMs: number | null;
  durationMs: number;
  bytesOut: number;
  attempts: readonly AttemptTrace[];
  /** Known before the call: the reservation that its row settles has the same one. */
  usageId: string;
  budgetWindows?: readonly string[] | null;
}

/** A call of a run that is about to be sent: its row as it is when its owner is lost. */
export interface BegunFact {
  fact: UsageFact;
  call: RunCall;
  /** What its tokens cost; null when that is unknown. */
  price: Price | null;
}

/** The outcome of an attempt that ended with this failure, or with none. */
export function outcomeOf(failure: HubError | null): UsageOutcome {
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
