import { JsonShape } from "../core/large_json/json_shape.ts";

/** Bounds of one event of a stream: it is read at once. A whole response with its tools stays far below. */
const BOUNDS = { maxDepth: 128, maxKeys: 50_000, maxValues: 100_000 } as const;
/** Shorter ones cannot be much work. */
const MAX_UNCHECKED = 16 * 1024;
const encoder = new TextEncoder();

/** The JSON of one event of a provider's stream. Throws for what is none, and for more than one event can have in it. */
export function parseFrame(text: string): unknown {
  if (text.length > MAX_UNCHECKED) {
    new JsonShape(BOUNDS, "The event").push(encoder.encode(text));
  }
  return JSON.parse(text);
}
