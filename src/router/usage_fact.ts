import type { CostBound } from "../core/cost.ts";
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
  /** Known before the call when it was counted in budgets: its row settles the reservation of this id. */
  usageId?: string;
  budgetWindows?: readonly string[] | null;
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
