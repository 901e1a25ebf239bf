import {
  guardEvent,
  type GuardOutcome,
  type GuardTrigger,
  type Projection,
} from "../core/context_events.ts";
import { HubError } from "../core/error.ts";
import type { FunctionDefinition, ModelRequest, ModelToolResult } from "../core/model.ts";
import type { BudgetRoom } from "../core/run_budget.ts";
import type { ModelWindow } from "../core/tokenizer.ts";
import type { UIMessage } from "../core/ui_message.ts";
import type { AgentRun } from "./agent_run.ts";
import { compact, isExhausted } from "./compact.ts";
import type { Conversation, Shape } from "./conversation.ts";
import { isRepairing } from "./hold_answer.ts";
import type { LoopBatch } from "./loop_batch.ts";
import { measureRequest } from "./measure_request.ts";
import { buildRequest } from "./model_request.ts";
import { resultsToDrop } from "./results_to_drop.ts";
import type { RunLedger } from "./run_ledger.ts";
import type { ConcludeReason } from "./step_reason.ts";
import { offeredBy } from "./tool_offer.ts";
import type { ToolSet } from "./tool_set.ts";

/** A step that is to be taken. */
export interface StepWish {
  step: number;
  /** Why it must be the last one; null when it need not. */
  concludes: ConcludeReason | null;
  /** There is something to conclude from. */
  mayConclude: boolean;
  /** A provider has refused the step's request, as too long. */
  refused?: HubError;
  /** And again, after it was made shorter. */
  isAgain?: boolean;
}

/** What to send for it. */
export type Prepared =
  | {
    kind: "ready";
    request: ModelRequest;
    concludes: ConcludeReason | null;
    projection?: Projection;
  }
  | { kind: "failed"; error: HubError };

/** Makes the requests of a run's steps, and keeps them within what the model can read. Rules: docs/agents.md. */
export class StepRequests {
  readonly #run: AgentRun;
  readonly #ledger: RunLedger;
  readonly #conversation: Conversation;
  readonly #tools: ToolSet;
  readonly #budgets: BudgetRoom;

  constructor(
    run: AgentRun,
    ledger: RunLedger,
    { conversation, tools, budgets }: {
      conversation: Conversation;
      tools: ToolSet;
      budgets: BudgetRoom;
    },
  ) {
    this.#run = run;
    this.#ledger = ledger;
    this.#conversation = conversation;
    this.#tools = tools;
    this.#budgets = budgets;
  }

  /** The request of a step that has begun; the conversation is made shorter first where it has to be. */
  async *prepare(wish: StepWish): AsyncGenerator<LoopBatch, Prepared, void> {
    let { concludes } = wish;
    let request = this.#build(concludes !== null);
    const window = this.#run.window?.();
    if (window === undefined) {
      if (wish.refused !== undefined) return { kind: "failed", error: wish.refused };
      return { kind: "ready", request, concludes };
    }
    const { limit, hard } = boundsOf(window);
    const measure = (request: ModelRequest) =>
      measureRequest(request, { tokenizer: window.tokenizer, limit });
    let projected = await measure(request);
    const trigger: GuardTrigger = wish.refused === undefined ? "request" : "provider";
    if (projected > limit || wish.refused !== undefined) {
      const shorter = wish.isAgain !== true && this.#mayCompact() &&
        (yield* compact(this.#run, this.#ledger, {
          conversation: this.#conversation,
          step: wish.step,
          trigger,
          beforeTokens: projected,
          limitTokens: limit,
          hardTokens: hard,
          tokenizer: window.tokenizer,
          build: (shape) => this.#build(concludes !== null, shape),
          measure,
          budgets: this.#budgets,
        }));
      if (shorter) {
        this.#observe(window, { projected, trigger, outcome: "compacted" });
        request = this.#build(concludes !== null);
        projected = await measure(request);
      } else if (wish.refused !== undefined) {
        return this.#overflow(window, { projected, wish, trigger });
      }
    }
    // What is told is what was found; what the guard does about it from here on is told beside it.
    const found = projected;
    const isOver = projected > limit || isExhausted(this.#ledger.message());
    if (isOver && concludes === null && wish.mayConclude) {
      concludes = "token-limit";
      request = this.#build(true);
      projected = await measure(request);
    }
    const dropped: string[] = [];
    while (projected > hard) {
      const next = await resultsToDrop(this.#newestResults(dropped), {
        tokens: projected - hard,
        tokenizer: window.tokenizer,
      });
      if (next.length === 0) return this.#overflow(window, { projected: found, wish, trigger });
      dropped.push(...next);
      request = this.#build(concludes !== null, this.#shapeWithout(dropped));
      projected = await measure(request);
    }
    const sent = projected === found ? {} : { sentTokens: projected };
    if (concludes === "token-limit" || dropped.length > 0) {
      const outcome: GuardOutcome = "concluded";
      const facts = { projected: found, trigger, outcome, dropped, ...sent };
      this.#note(window, `guard-${wish.step}`, facts);
      yield this.#ledger.take();
    }
    const projection = { ...toProjection(found, limit), ...sent };
    this.#observe(window, { projected: found });
    return { kind: "ready", request, concludes, projection };
  }

  /** True when there is no room for the results of calls, and none can be made. */
  async refusesCalls(step: number): Promise<boolean> {
    const window = this.#run.window?.();
    if (window === undefined || this.#mayCompact()) return false;
    const { limit } = boundsOf(window);
    const { tokenizer } = window;
    const projected = await measureRequest(this.#build(false), { tokenizer, limit });
    if (projected <= limit) return false;
    this.#note(window, `guard-tool-${step}`, { projected, trigger: "tool", outcome: "refused" });
    return true;
  }

  #build(concluding: boolean, shape?: Shape): ModelRequest {
    const message = this.#ledger.message();
    const { settings, wireNames, answer } = this.#run;
    return buildRequest(settings, {
      messages: this.#conversation.messages(message, shape),
      tools: this.#shown(message),
      toWire: (name) => wireNames.toWire(name),
      concluding,
      isRepair: isRepairing(message),
      ...(answer === undefined ? {} : { responseFormat: answer.responseFormat }),
      hasCalled: message.parts.some(({ type }) => type === "tool"),
    });
  }

  /** As the run has begun, however many tools there are by now. */
  #shown(message: UIMessage): readonly FunctionDefinition[] {
    const offered = offeredBy(message, this.#run.wireNames.fromWire);
    return offered === null ? this.#tools.definitions : this.#tools.define(offered);
  }

  #mayCompact(): boolean {
    return this.#run.settings.compaction !== false && !isExhausted(this.#ledger.message());
  }

  #overflow(
    window: ModelWindow,
    { projected, wish, trigger }: { projected: number; wish: StepWish; trigger: GuardTrigger },
  ): Prepared {
    this.#note(window, `guard-${wish.step}`, { projected, trigger, outcome: "overflow" });
    const { model, contextTokens } = window;
    return {
      kind: "failed",
      error: new HubError(
        "context_length_exceeded",
        `The conversation does not fit into the context of ${model}: about ${projected} tokens, its window is ` +
          `${contextTokens} and keeps ${window.outputTokens} for the answer`,
        { clientCode: "context_overflow", cause: wish.refused },
      ),
    };
  }

  /** The results of the newest step that has any, newest first, but those that are dropped. */
  #newestResults(dropped: readonly string[]): ModelToolResult[] {
    const { units } = this.#conversation.view(this.#ledger.message());
    const last = units.findLast(({ messages }) => messages.some(({ role }) => role === "tool"));
    const results = (last?.messages ?? []).flatMap((message) =>
      message.role === "tool" ? message.results : []
    );
    const left = new Set(dropped);
    return results.filter(({ toolCallId }) => !left.has(toolCallId)).reverse();
  }

  #shapeWithout(dropped: readonly string[]): Shape {
    const shape = this.#conversation.shape(this.#ledger.message());
    const leftOut = new Map(shape.leftOut);
    for (const id of dropped) leftOut.set(id, "dropped");
    return { ...shape, leftOut };
  }

  /** Writes down, and counts, what the guard has done. */
  #note(
    window: ModelWindow,
    id: string,
    fact: {
      projected: number;
      trigger: GuardTrigger;
      outcome: GuardOutcome;
      dropped?: readonly string[];
      sentTokens?: number;
    },
  ): void {
    const { projected, trigger, outcome, dropped = [], sentTokens } = fact;
    const projection = {
      ...toProjection(projected, boundsOf(window).limit),
      ...(sentTokens === undefined ? {} : { sentTokens }),
    };
    this.#ledger.add([guardEvent(id, { trigger, outcome, dropped, ...projection })]);
    this.#observe(window, { projected, trigger, outcome });
  }

  #observe(
    window: ModelWindow,
    { projected, trigger, outcome }: {
      projected: number;
      trigger?: GuardTrigger;
      outcome?: GuardOutcome;
    },
  ): void {
    const { provider, model } = window;
    const { remainingTokens } = toProjection(projected, boundsOf(window).limit);
    const event = trigger === undefined || outcome === undefined ? {} : {
      event: { trigger, outcome },
    };
    this.#run.observeContext?.({ provider, model, remainingTokens, ...event });
  }
}

/** Most tokens of a request as a rule, and at all: the buffer is for the request that ends a run. */
export function boundsOf(
  { contextTokens, outputTokens, bufferTokens }: Omit<ModelWindow, "tokenizer">,
): { limit: number; hard: number } {
  const hard = contextTokens - outputTokens;
  return { limit: hard - bufferTokens, hard };
}

function toProjection(projectedTokens: number, limitTokens: number): Projection {
  return { projectedTokens, limitTokens, remainingTokens: limitTokens - projectedTokens };
}
