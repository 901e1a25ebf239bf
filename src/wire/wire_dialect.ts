import type { Usage } from "../core/usage.ts";
import type { Redact } from "./provider_text.ts";
import type { FrameReader } from "./sse_tap.ts";

/**
 * A dialect in which requests arrive, and which some providers speak too: then bytes pass as they are. `pass` is the rest
 * of OpenAI's API, whose requests say themselves where below the base URL they go.
 */
export type WireName = "chat" | "messages" | "responses" | "embeddings" | "completions" | "pass";

/** What the router must understand of answers in a dialect. */
export interface WireDialect {
  name: WireName;
  /** For one streamed answer. */
  createFrames(options: { hideUsage: boolean; choices: number; redact: Redact }): FrameReader;
  /**
   * The usage of a whole answer, null when it tells none. Rejects `upstream_malformed` for what is no answer,
   * `upstream_error` for an error in its place.
   */
  readUsage(bytes: Uint8Array, redact: Redact): Promise<Usage | null>;
  /** What is estimated of an answer that tells no usage; both halves unless told. */
  estimates?: "input" | "nothing";
}
