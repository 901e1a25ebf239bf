import type { Json, JsonObject } from "../core/json.ts";
import type { ChatError, ErrorFacts, NativeRequest } from "./chat_dialect.ts";
import { checkFields, member, refusal } from "./chat_fields.ts";

/** How a provider without OpenAI's API is asked for embeddings. */
export interface EmbeddingsDialect {
  /**
   * The native requests for a request of OpenAI's, one after another; `model` is the provider's own name. Throws
   * `invalid_request` with the `param` that cannot be carried.
   */
  encodeRequests(request: JsonObject): NativeRequest[];
  /** Vectors in the order of the inputs, and what the provider says of tokens. Throws `upstream_malformed`. */
  decodeAnswer(native: JsonObject): EmbeddingVectors;
  /** The members of an OpenAI error for a native error body. */
  decodeError(native: unknown, status: number): ChatError;
  errorFacts?(native: unknown): ErrorFacts;
}

/** What one native answer holds. */
export interface EmbeddingVectors {
  vectors: Json[];
  /** Null when the provider does not count. */
  promptTokens: number | null;
}

const CARRIED: readonly string[] = ["input", "dimensions", "encoding_format"];
const MOST_INPUTS = 2048;

/** The texts of a request whose fields are all OpenAI's or in `own`; lists of tokens mean something to OpenAI's models alone. */
export function embeddingInputs(
  request: JsonObject,
  { provider, own }: { provider: string; own: readonly string[] },
): string[] {
  checkFields(request, { carried: new Set([...CARRIED, ...own]), provider });
  const input = member(request, "input");
  const inputs = Array.isArray(input) ? input : [input];
  if (inputs.length === 0 || inputs.length > MOST_INPUTS) {
    throw refusal("input", `input must be 1 to ${MOST_INPUTS} texts, but ${inputs.length} came`);
  }
  return inputs.map((text, index) => {
    if (typeof text === "string" && text !== "") return text;
    throw refusal(
      Array.isArray(input) ? `input[${index}]` : "input",
      `${provider} takes input as text that is not empty, or a list of such texts`,
    );
  });
}

/** `dimensions`, null when the client does not say. */
export function dimensionsOf(request: JsonObject): number | null {
  const dimensions = member(request, "dimensions");
  if (dimensions === null) return null;
  if (typeof dimensions === "number" && Number.isSafeInteger(dimensions) && dimensions > 0) {
    return dimensions;
  }
  throw refusal("dimensions", "dimensions must be a whole number above 0");
}
