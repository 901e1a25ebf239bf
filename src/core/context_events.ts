import { isJsonObject, type Json, type JsonObject } from "./json.ts";

/** Names of the `data` events and parts that say what was done about a conversation that grew too long. */
const GUARD = "context-guard";
const COMPACTION = "compaction";

/** What led the guard to act: a request to be sent, calls to be executed, a provider that refused a request. */
export type GuardTrigger = "request" | "tool" | "provider";

/**
 * What it did: `compacted` the conversation, `concluded` the run with one more answer, `refused` calls, or ended the
 * run since nothing helped (`overflow`).
 */
export type GuardOutcome = "compacted" | "concluded" | "refused" | "overflow";

/** Tokens of a request as the guard found it, before it dropped results or had the run conclude, and how many there may be. */
export interface Projection {
  projectedTokens: number;
  limitTokens: number;
  /** Below 0 where there are too many. */
  remainingTokens: number;
  /** Tokens of the request that is sent, where the guard has changed it. */
  sentTokens?: number;
}

/** What the guard did. */
export interface GuardFact extends Projection {
  trigger: GuardTrigger;
  outcome: GuardOutcome;
  /** Calls whose results the model does not get: the room was gone. */
  dropped: readonly string[];
}

/** What metrics are told. */
export interface ContextFact {
  provider: string;
  model: string;
  remainingTokens: number;
  /** What the guard did; left out where it had nothing to do. */
  event?: { trigger: GuardTrigger; outcome: GuardOutcome };
}

/** How a conversation was made shorter. What is behind it is read with this for ever. */
export interface Compaction {
  trigger: GuardTrigger;
  beforeTokens: number;
  afterTokens: number;
  limitTokens: number;
  /** Calls whose results are pointers from now on. */
  pruned: readonly string[];
  /** What stands for everything before `from`. */
  summary?: string;
  /** The first message, and the step of it (-1 where it has none), that is read as it is. */
  from?: { messageId: string; step: number };
}

/** Any `data` event or part. */
interface NamedData {
  type: string;
  name?: string;
  data?: Json;
  id?: string;
}

/** The event that says what the guard did. */
export function guardEvent(id: string, { dropped, ...fact }: GuardFact) {
  const data: JsonObject = { ...fact };
  if (dropped.length > 0) data["dropped"] = [...dropped];
  return { type: "data" as const, name: GUARD, id, data };
}

/** The event that says how the conversation was made shorter. */
export function compactionEvent(id: string, { pruned, from, ...rest }: Compaction) {
  const data: JsonObject = { ...rest, pruned: [...pruned] };
  if (from !== undefined) data["from"] = { ...from };
  return { type: "data" as const, name: COMPACTION, id, data };
}

/** True for `data` that later requests are made with. */
export function shapesContext({ name }: { name?: string }): boolean {
  return name === GUARD || name === COMPACTION;
}

/** What the guard did, by an event or part of it; null for any other. */
export function readGuard({ name, data }: NamedData): JsonObject | null {
  return name === GUARD && isJsonObject(data) ? data : null;
}

/** The calls whose results the guard took away; empty for any other part. */
export function readDropped({ name, data }: NamedData): string[] {
  return name === GUARD && isJsonObject(data) ? texts(data["dropped"]) : [];
}

/** The compaction of an event or part; null for any other. */
export function readCompaction({ name, data }: NamedData): Compaction | null {
  if (name !== COMPACTION || !isJsonObject(data)) return null;
  const { summary, from } = data;
  return {
    trigger: data["trigger"] === "provider" ? "provider" : "request",
    beforeTokens: Number(data["beforeTokens"]),
    afterTokens: Number(data["afterTokens"]),
    limitTokens: Number(data["limitTokens"]),
    pruned: texts(data["pruned"]),
    ...(typeof summary === "string" ? { summary } : {}),
    ...(isJsonObject(from)
      ? { from: { messageId: String(from["messageId"]), step: Number(from["step"]) } }
      : {}),
  };
}

function texts(value: Json | undefined): string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
}
