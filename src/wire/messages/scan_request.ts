import { HubError } from "../../core/error.ts";
import type { Json } from "../../core/json.ts";
import type { Span } from "../json_bytes.ts";
import { editBytes } from "../openai_chat/rewrite_request.ts";
import { scanMembers, scanModel } from "../openai_chat/scan_request.ts";

/** What the hub must know of a Messages request, wherever it goes. */
export interface MessagesRequestScan {
  model: string;
  /** The bytes of the model's value, quotes included. */
  modelSpan: Span;
  stream: boolean;
  /** Whether the client asked for thinking, so that it expects blocks of it. */
  thinks: boolean;
}

const WATCHED = new Set(["model", "stream", "thinking"]);

/** Reads a Messages request in one pass; see `scanMembers` and `scanModel` for what it throws. */
export async function scanMessagesRequest(body: Uint8Array): Promise<MessagesRequestScan> {
  const members = await scanMembers(body, WATCHED);
  return { ...scanModel(members), thinks: asksForThinking(members.read("thinking")) };
}

function asksForThinking(thinking: unknown): boolean {
  if (typeof thinking !== "object" || thinking === null || !("type" in thinking)) return false;
  return thinking.type !== "disabled";
}

/** The client's bytes with another model name; every other byte stays as it is. */
export function renameModel(
  body: Uint8Array,
  { model, modelSpan }: Pick<MessagesRequestScan, "model" | "modelSpan">,
  name: string,
): Uint8Array {
  return model === name ? body : editBytes(body, [{ ...modelSpan, text: JSON.stringify(name) }]);
}

/** A refusal that the clients of Anthropic answer by sending the whole history. */
export function threadRefusal(thread: Json): HubError {
  const asked = typeof thread === "object" ? JSON.stringify(thread).slice(0, 80) : String(thread);
  return new HubError(
    "invalid_request",
    `thread: the provider of this model keeps no conversations (${asked}); send all messages`,
    { param: "thread", clientCode: THREAD_UNSUPPORTED },
  );
}

/** The code by which clients know that refusal. */
export const THREAD_UNSUPPORTED = "thread_unsupported_request";
