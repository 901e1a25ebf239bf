import { MAX_JSON_DEPTH, MAX_JSON_KEYS } from "../core/limits.ts";
import { isJsonObject, type Json } from "../core/json.ts";
import type { ToolInputProblem } from "../core/tool.ts";

/** Own keys that survive `JSON.parse` and turn a careless merge into prototype pollution. */
export const FORBIDDEN_KEYS: ReadonlySet<string> = new Set([
  "__proto__",
  "constructor",
  "prototype",
]);

/**
 * The reason why a value must not be walked or merged, or null: nested deeper than 64 levels, more than 200,000
 * keys, or a forbidden own key. Iterative, so that no nesting can exhaust the stack.
 */
export function findHostileJson(value: Json): ToolInputProblem | null {
  const waiting: { value: Json; depth: number }[] = [{ value, depth: 1 }];
  let keys = 0;
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (typeof next.value !== "object" || next.value === null) continue;
    if (next.depth > MAX_JSON_DEPTH) {
      return problem(`at most ${MAX_JSON_DEPTH} levels of nesting`, "more");
    }
    const depth = next.depth + 1;
    if (isJsonObject(next.value)) {
      for (const key of Object.keys(next.value)) {
        if (FORBIDDEN_KEYS.has(key)) {
          return problem("no property of this name anywhere", JSON.stringify(key));
        }
        if (++keys > MAX_JSON_KEYS) return problem(`at most ${MAX_JSON_KEYS} keys`, "more");
        const child = next.value[key];
        if (child !== undefined) waiting.push({ value: child, depth });
      }
    } else {
      for (const child of next.value) waiting.push({ value: child, depth });
    }
  }
  return null;
}

function problem(wanted: string, got: string): ToolInputProblem {
  return { path: "", wanted, got };
}
