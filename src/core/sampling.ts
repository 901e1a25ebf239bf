import type { JsonObject } from "./json.ts";
import type { UserContent } from "./model.ts";
import type { BudgetLeft } from "./run_budget.ts";
import type { Principal } from "./tool.ts";

/** Whose call asks a model in the middle of it. */
export interface SamplingCaller {
  principal: Principal;
  /** Empty outside of runs, all three. */
  sessionId: string;
  runId: string;
  agent: string;
  signal: AbortSignal;
  /** The run's; left out outside of runs. */
  budget?: BudgetLeft | undefined;
}

/** What a model is asked. */
export interface SamplingWish {
  /** Public name. */
  model: string;
  systemPrompt: string;
  messages: ({ role: "user"; content: UserContent[] } | { role: "assistant"; text: string })[];
  maxTokens: number;
  temperature?: number;
  /** Further wire fields. */
  extra: JsonObject;
}

/** What it answers; `model` is the provider's name of it. */
export interface SamplingAnswer {
  text: string;
  model: string;
  finishReason: string;
}

/** Asks models, on the caller's account. */
export interface Sampler {
  /** Public name of the model that the hub takes by default. */
  defaultModel(): string;
  /** Rejects with a `HubError`. */
  ask(wish: SamplingWish, caller: SamplingCaller): Promise<SamplingAnswer>;
}
