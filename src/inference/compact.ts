import { type Compaction, compactionEvent, type GuardTrigger } from "../core/context_events.ts";
import type { ModelRequest } from "../core/model.ts";
import type { BudgetRoom } from "../core/run_budget.ts";
import type { Tokenizer } from "../core/tokenizer.ts";
import type { UIMessage } from "../core/ui_message.ts";
import type { AgentRun } from "./agent_run.ts";
import { askSummary, SUMMARISE } from "./ask_summary.ts";
import { compactionsOf, type Conversation, type Shape } from "./conversation.ts";
import type { Unit } from "./history_to_model.ts";
import type { LoopBatch } from "./loop_batch.ts";
import { measureMessages } from "./measure_request.ts";
import { repairHistory } from "./repair_history.ts";
import type { RunLedger } from "./run_ledger.ts";
import type { LeftOut } from "./tool_result_text.ts";

/** Newest results that stay as they are, and the newest steps behind a summary, in tokens. */
export const KEPT_TOKENS = 40_000;
/** In small windows it is less. */
const KEPT_SHARE = 0.3;
/** A shorter result is not worth a pointer, in characters. */
const SHORTEST_PRUNED = 400;
/** A compaction that frees less is a poor one. */
const GOOD_SHARE = 0.2;
/** Poor compactions in a row that end a run. */
const MOST_POOR = 2;
/** Longest summary. */
export const SUMMARY_TOKENS = 4096;

/** What stands where no summary could be had. */
export const NO_SUMMARY =
  "(It could not be summarised and is left out. hub.search_history finds what was said in it.)";

/** What is to be made shorter, and how far. */
export interface CompactPlan {
  conversation: Conversation;
  step: number;
  trigger: GuardTrigger;
  beforeTokens: number;
  limitTokens: number;
  /** Most tokens of a request at all. */
  hardTokens: number;
  tokenizer: Tokenizer;
  /** The next request, with what may be done to the conversation. */
  build(shape: Shape): ModelRequest;
  measure(request: ModelRequest): Promise<number>;
  /** A summary that they have no room for is not asked for. */
  budgets: BudgetRoom;
}

/**
 * Makes the conversation shorter for its next request and for all behind it: old results become pointers, then everything
 * but the newest steps a summary. What it has done is in the ledger, and durable, before it ends. False when there was
 * nothing to be done.
 */
export async function* compact(
  run: AgentRun,
  ledger: RunLedger,
  plan: CompactPlan,
): AsyncGenerator<LoopBatch, boolean, void> {
  const { conversation, beforeTokens, limitTokens, tokenizer } = plan;
  const message = ledger.message();
  const before = conversation.shape(message);
  const { units } = conversation.view(message);
  const kept = await keptTokens(plan, units);
  const pruned = await findOld(units, { kept, tokenizer, leftOut: before.leftOut });
  const leftOut = new Map<string, LeftOut>(before.leftOut);
  for (const id of pruned) leftOut.set(id, "pruned");
  let shape: Shape = { ...before, leftOut };
  let afterTokens = await plan.measure(plan.build(shape));
  let summary: Shape["summary"] = null;
  if (afterTokens > goalOf(plan) || isPoor({ beforeTokens, afterTokens })) {
    const view = conversation.view(message, shape);
    const at = await findTail(view.units, { kept, tokenizer });
    const first = view.units[at];
    if (first !== undefined && view.units.slice(0, at).some(({ role }) => role === "assistant")) {
      if (ledger.hasMore) yield ledger.take();
      const request = await summaryRequest(plan, { message, shape, at });
      const text = request === null || !plan.budgets.fits(await plan.measure(request))
        ? null
        : await askSummary(run, ledger, { request, step: plan.step });
      // Without a summary the conversation loses its beginning only where it would not fit otherwise.
      if (text !== null || afterTokens > goalOf(plan)) {
        const { messageId, step } = first;
        summary = { text: text ?? NO_SUMMARY, from: { messageId, step } };
        shape = { ...shape, summary };
        afterTokens = await plan.measure(plan.build(shape));
      }
    }
  }
  if (pruned.length === 0 && summary === null) return false;
  const { trigger } = plan;
  const done: Compaction = {
    trigger,
    beforeTokens,
    afterTokens,
    limitTokens,
    pruned,
    ...(summary === null ? {} : { summary: summary.text, from: summary.from }),
  };
  const { length } = compactionsOf(message);
  ledger.add([compactionEvent(`compaction-${length}`, done)]);
  yield ledger.take();
  return true;
}

/** True when the run's last compactions have freed so little that another one is not worth it. */
export function isExhausted(message: UIMessage): boolean {
  const last = compactionsOf(message).slice(-MOST_POOR);
  return last.length === MOST_POOR && last.every(isPoor);
}

/** How long a request may be. A provider that refused one has said that the hub's count is too low, whatever it is. */
function goalOf({ trigger, beforeTokens, limitTokens }: CompactPlan): number {
  return trigger === "provider" ? Math.min(limitTokens, beforeTokens / 2) : limitTokens;
}

function isPoor({ beforeTokens, afterTokens }: Pick<Compaction, "beforeTokens" | "afterTokens">) {
  return beforeTokens - afterTokens < beforeTokens * GOOD_SHARE;
}

/** How much of the newest stays, by the room that is left beside what cannot be made shorter. */
async function keptTokens(
  plan: CompactPlan,
  units: readonly Unit[],
): Promise<number> {
  const said = units.filter(({ role }) => role === "assistant").flatMap((unit) => unit.messages);
  const fixed = plan.beforeTokens - await measureMessages(said, plan.tokenizer);
  const room = Math.max(0, goalOf(plan) - fixed);
  return Math.min(KEPT_TOKENS, Math.floor(room * KEPT_SHARE));
}

/** The calls whose results are older than the newest `kept` tokens of results, oldest first. */
async function findOld(
  units: readonly Unit[],
  { kept, tokenizer, leftOut }: {
    kept: number;
    tokenizer: Tokenizer;
    leftOut: ReadonlyMap<string, LeftOut>;
  },
): Promise<string[]> {
  const results = units.flatMap(({ messages }) =>
    messages.flatMap((message) => message.role === "tool" ? message.results : [])
  );
  const old: string[] = [];
  let tokens = 0;
  for (const { toolCallId, text, images } of results.toReversed()) {
    if (leftOut.has(toolCallId)) continue;
    if (tokens <= kept) tokens += await tokenizer.count(text);
    const isLong = text.length > SHORTEST_PRUNED || images.length > 0;
    if (tokens > kept && isLong) old.push(toolCallId);
  }
  return old.reverse();
}

/** Where the newest units begin that are kept beside a summary: at least the last one. */
async function findTail(
  units: readonly Unit[],
  { kept, tokenizer }: { kept: number; tokenizer: Tokenizer },
): Promise<number> {
  let at = units.length - 1;
  for (let tokens = 0; at > 0; at--) {
    tokens += await measureMessages(units[at]?.messages ?? [], tokenizer);
    const next = await measureMessages(units[at - 1]?.messages ?? [], tokenizer);
    if (tokens + next > kept) break;
  }
  return at;
}

/** What the model is asked for a summary of everything before `at`; its oldest part is left out where it does not fit. */
async function summaryRequest(
  plan: CompactPlan,
  { message, shape, at }: { message: UIMessage; shape: Shape; at: number },
): Promise<ModelRequest | null> {
  const { conversation, tokenizer } = plan;
  const { maxOutputTokens, ...request } = plan.build(shape);
  const { head, words, units } = conversation.view(message, shape);
  const ask = { role: "user" as const, content: [{ type: "text" as const, text: SUMMARISE }] };
  const most = plan.trigger === "provider" ? plan.beforeTokens / 2 : plan.hardTokens;
  const withUnits = (from: number): ModelRequest => ({
    ...request,
    messages: repairHistory([
      ...head,
      ...words,
      ...units.slice(from, at).flatMap(({ messages }) => messages),
      ask,
    ]),
    ...(request.tools.length === 0 ? {} : { toolChoice: "none" as const }),
    maxOutputTokens: Math.min(maxOutputTokens ?? SUMMARY_TOKENS, SUMMARY_TOKENS),
  });
  let over = await plan.measure(withUnits(0)) - most;
  let from = 0;
  for (; over > 0 && from < at; from++) {
    over -= await measureMessages(units[from]?.messages ?? [], tokenizer);
  }
  return from === at ? null : withUnits(from);
}
