import type { Json, JsonObject } from "../core/json.ts";

const MAX_DEPTH = 100;
const MAX_PARTS = 20_000;
const MAX_CHARS = 256 * 1024;

/** Why a schema is too much to work with, or null. No nesting exhausts the stack. */
export function findOversize(schema: JsonObject): string | null {
  const waiting: { value: Json; depth: number }[] = [{ value: schema, depth: 1 }];
  let parts = 0;
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (typeof next.value !== "object" || next.value === null) continue;
    if (next.depth > MAX_DEPTH) return `its schema is nested deeper than ${MAX_DEPTH} levels`;
    for (const value of Object.values(next.value)) {
      if (++parts > MAX_PARTS) return `its schema has more than ${MAX_PARTS} parts`;
      waiting.push({ value, depth: next.depth + 1 });
    }
  }
  const { length } = JSON.stringify(schema);
  return length > MAX_CHARS ? `its schema has more than ${MAX_CHARS} characters` : null;
}
