import type { JsonObject } from "./json.ts";
import type { UserContent } from "./model.ts";
import type { Principal } from "./tool.ts";

/** Whose call asks a model in the middle of it. */
export interface SamplingCaller {
  principal: Principal;
  /** Empty outside of runs, all three. */
  sessionId: string;
  runId: string;
  agent: string;
  signal: AbortSignal;
}

/** What a model is asked. */
export interface SamplingWish {
  /** Public name; null for the one that the hub takes by default. */
  model: string | null;
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

/** Asks a model, on the caller's account. Rejects with a `HubError`. */
export type SampleModel = (wish: SamplingWish, caller: SamplingCaller) => Promise<SamplingAnswer>;
