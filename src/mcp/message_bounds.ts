import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import type { JsonObject } from "../core/json.ts";
import { JsonShape } from "../core/large_json/json_shape.ts";

/** Bounds of one message of a server: a result may be a whole table, but nothing that is only work. */
export const MESSAGE_BOUNDS = { maxDepth: 256, maxKeys: 100_000, maxValues: 300_000 } as const;
const WHAT = "The message of the server";
const encoder = new TextEncoder();
/** What a request or an answer is about, where that stands before or behind everything else. */
const ID = /"id"\s*:\s*(\d{1,15}|"[^"\\]{1,100}")\s*[,}]/;
/** How much of either end of a message is looked at, in characters. */
export const ENDS = 1000;

/** Counts a message while it comes. */
export function createMessageShape(): JsonShape {
  return new JsonShape(MESSAGE_BOUNDS, WHAT);
}

/**
 * Reads a message within the bounds. One past them becomes the error that its call gets, where it says which call it is
 * about, so that nothing waits for it. Throws for what is no message.
 */
export function parseMessage(
  text: string,
  read: (value: unknown) => JSONRPCMessage,
): JSONRPCMessage {
  try {
    createMessageShape().push(encoder.encode(text));
  } catch (error) {
    const refusal = refusalOf({ start: text.slice(0, ENDS), end: text.slice(-ENDS) }, error);
    if (refusal === null) throw error;
    return read(refusal);
  }
  return read(JSON.parse(text));
}

/** The error that stands for a message past a bound; null where neither end of it says which call it is about. */
export function refusalOf(
  { start, end }: { start: string; end: string },
  error: unknown,
): JsonObject | null {
  const id = ID.exec(start)?.[1] ?? ID.exec(end)?.[1];
  if (id === undefined) return null;
  const message = error instanceof Error ? error.message : "The message is out of bounds";
  return { jsonrpc: "2.0", id: JSON.parse(id), error: { code: -32603, message } };
}
