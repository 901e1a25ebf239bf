import type { Json } from "./json.ts";

/** The JSON value of a call's argument text, `{}` for empty text; undefined when it is no JSON. */
export function parseInput(text: string): Json | undefined {
  if (text.trim() === "") return {};
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}
