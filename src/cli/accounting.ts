import type { Clock } from "../core/clock.ts";
import { readGuard } from "../core/context_events.ts";
import { HubError, toHubError } from "../core/error.ts";
import type { FinishReason, HubEvent } from "../core/event.ts";
import type { CallModel, ModelEvent } from "../core/model.ts";
import type { Usage } from "../core/usage.ts";
import type { ExecuteTool } from "../inference/agent_run.ts";
import type { RunnableAgent, StartOptions } from "../run/runnable_agent.ts";

const UNKNOWN_USAGE: Record<keyof Omit<Usage, "cacheWriteTokens">, null> = {
  promptTokens: null,
  completionTokens: null,
  totalTokens: null,
  cachedTokens: null,
  reasoningTokens: null,
};

/** Why a run ended, where something of its limits ended it. */
const EXIT_REASONS: Partial<Record<FinishReason, string>> = {
  "max-steps": "EXIT-MAX-STEPS",
  "max-time": "EXIT-MAX-TIME",
  "max-tokens": "EXIT-MAX-TOKENS",
  "max-cost": "EXIT-MAX-COST",
  "max-output": "EXIT-MAX-OUTPUT",
  "token-limit": "EXIT-TOKEN-LIMIT",
};

/**
 * Appends one JSON line for each model call of a run (`type: "llm"`, those whose answer broke off too), each tool that
 * was run (`tool`), each time that the context guard acted (`guard`), and the run (`run`): latency in milliseconds, characters in and out, tokens, cost in millionths of
 * a US dollar. What is not known is null.
 */
export class Accounting {
  readonly #path: string;
  readonly #clock: Clock;
  /** Ids of the guard's events that were written down. */
  readonly #guards = new Set<string | undefined>();

  /** Throws `invalid_request` when the file cannot be written. */
  constructor(path: string, clock: Clock) {
    this.#path = path;
    this.#clock = clock;
    try {
      this.#append("");
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new HubError("invalid_request", `The accounting file cannot be written: ${reason}`);
    }
  }

  /** The same agent and the same execution of its tools, each call of them written down. */
  watch(
    { agent, start }: { agent: RunnableAgent; start: StartOptions },
  ): { agent: RunnableAgent; start: StartOptions } {
    const watched = (agent: RunnableAgent): RunnableAgent => {
      const { prepare } = agent;
      return {
        ...agent,
        callModel: (facts) => this.#watchModel(agent.callModel(facts)),
        ...prepare === undefined
          ? {}
          : { prepare: async (...caller) => watched(await prepare(...caller)) },
      };
    };
    return {
      agent: watched(agent),
      start: { ...start, executeTool: this.#watchTools(start.executeTool) },
    };
  }

  /** Characters in are those of messages and tools as JSON. */
  #watchModel(callModel: CallModel): CallModel {
    const write = (entry: Record<string, unknown>) => this.#write({ type: "llm", ...entry });
    const clock = this.#clock;
    return async function* (request, context) {
      const startedMs = clock.monotonic();
      const { messages, tools } = request;
      const { step, stepAttempt, projection } = context;
      const facts = new AnswerFacts();
      let outcome = "aborted";
      try {
        for await (const events of callModel(request, context)) {
          facts.take(events);
          yield events;
        }
        outcome = "ok";
      } catch (error) {
        if (!context.signal.aborted) outcome = toHubError(error).code;
        throw error;
      } finally {
        write({
          step,
          attempt: stepAttempt + 1,
          outcome,
          finishReason: facts.finishReason,
          provider: facts.provider,
          model: facts.model,
          latencyMs: Math.round(clock.monotonic() - startedMs),
          charactersIn: JSON.stringify({ messages, tools }).length,
          charactersOut: facts.characters,
          ...(facts.usage ?? UNKNOWN_USAGE),
          costMicros: facts.costMicros,
          ...projection,
        });
      }
    };
  }

  /** Characters are those of the input as JSON, and of the output or the failure's text. */
  #watchTools(execute: ExecuteTool): ExecuteTool {
    return async (tool, input, context) => {
      const startedMs = this.#clock.monotonic();
      let end = { status: "failed", charactersOut: 0 };
      try {
        const outcome = await execute(tool, input, context);
        end = outcome.ok
          ? { status: "ok", charactersOut: textLength(outcome.output) }
          : { status: "failed", charactersOut: outcome.errorText.length };
        return outcome;
      } finally {
        this.#write({
          type: "tool",
          tool: tool.name,
          status: end.status,
          latencyMs: Math.round(this.#clock.monotonic() - startedMs),
          charactersIn: JSON.stringify(input).length,
          charactersOut: end.charactersOut,
        });
      }
    };
  }

  /** Writes down what the context guard did, and the run at its end. */
  take(event: HubEvent): void {
    const guard = event.type === "data" ? readGuard(event) : null;
    if (guard !== null && event.type === "data") {
      // It stands in the log again behind a reset of its step.
      if (!this.#guards.has(event.id)) this.#write({ type: "guard", ...guard });
      this.#guards.add(event.id);
    }
    if (event.type !== "finish") return;
    const { finishReason, costMicros, metadata, usage } = event;
    const exitReason = EXIT_REASONS[finishReason];
    this.#write({ type: "run", finishReason, exitReason, ...metadata, ...usage, costMicros });
  }

  #write(entry: Record<string, unknown>): void {
    const time = new Date(this.#clock.now()).toISOString();
    this.#append(`${JSON.stringify({ time, ...entry })}\n`);
  }

  #append(text: string): void {
    Deno.writeTextFileSync(this.#path, text, { append: true, create: true });
  }
}

/** What one model answer says about itself. */
class AnswerFacts {
  characters = 0;
  provider: string | null = null;
  model: string | null = null;
  finishReason: string | null = null;
  usage: Usage | null = null;
  costMicros: number | null = null;

  take(events: readonly ModelEvent[]): void {
    for (const event of events) {
      switch (event.type) {
        case "response-start":
          this.provider = event.provider;
          this.model = event.model;
          break;
        case "text-delta":
        case "reasoning-delta":
        case "tool-call-delta":
          this.characters += event.delta.length;
          break;
        case "usage":
          this.usage = event.usage;
          this.costMicros = event.costMicros ?? null;
          break;
        case "finish":
          this.finishReason = event.finishReason;
          break;
        default:
      }
    }
  }
}

function textLength(output: unknown): number {
  return typeof output === "string" ? output.length : JSON.stringify(output).length;
}
