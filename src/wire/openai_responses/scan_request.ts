import { isJsonObject } from "../../core/json.ts";
import type { Span } from "../json_bytes.ts";
import { editBytes } from "../openai_chat/rewrite_request.ts";
import { scanMembers, scanModel, wrongType } from "../openai_chat/scan_request.ts";

/** What the hub must know of a Responses request, wherever it goes. */
export interface ResponsesRequestScan {
  model: string;
  /** The bytes of the model's value, quotes included. */
  modelSpan: Span;
  stream: boolean;
  /** Whether the answer can be found again; true unless the client says otherwise, as at OpenAI. */
  store: boolean;
  background: boolean;
  previousResponseId: string | null;
  /** The id of a conversation that the request belongs to. */
  conversation: string | null;
  promptCacheKey: string | null;
}

const WATCHED = new Set([
  "model",
  "stream",
  "store",
  "background",
  "previous_response_id",
  "conversation",
  "prompt_cache_key",
]);

/** Reads a Responses request in one pass; see `scanMembers` and `scanModel` for what it throws. */
export async function scanResponsesRequest(body: Uint8Array): Promise<ResponsesRequestScan> {
  const members = await scanMembers(body, WATCHED);
  const { read } = members;
  // OpenAI takes null for "not streamed".
  const isUnstreamed = read("stream") === null;
  const text = (name: string): string | null => {
    const value = read(name) ?? null;
    if (value === null || typeof value === "string") return value;
    throw wrongType(name, value, "text");
  };
  const flag = (name: string, unless: boolean): boolean => {
    const value = read(name) ?? unless;
    if (typeof value === "boolean") return value;
    throw wrongType(name, value, "a boolean");
  };
  const conversation = read("conversation") ?? null;
  const scan = scanModel(members);
  return {
    ...scan,
    stream: !isUnstreamed && scan.stream,
    store: flag("store", true),
    background: flag("background", false),
    previousResponseId: text("previous_response_id"),
    conversation: isJsonObject(conversation) ? String(conversation["id"]) : text("conversation"),
    promptCacheKey: text("prompt_cache_key"),
  };
}

/** The client's bytes with another model name; every other byte stays as it is. */
export function renameModel(
  body: Uint8Array,
  { model, modelSpan }: Pick<ResponsesRequestScan, "model" | "modelSpan">,
  name: string,
): Uint8Array {
  return model === name ? body : editBytes(body, [{ ...modelSpan, text: JSON.stringify(name) }]);
}
