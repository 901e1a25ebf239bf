import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { hidesText } from "../core/visible_text.ts";
import { cleanText } from "./clean_text.ts";

/** What people and models read of a schema, and what nothing else depends on. */
const PROSE: ReadonlySet<string> = new Set(["$comment", "description", "title"]);
/** What is shown to nobody. */
const CODE: ReadonlySet<string> = new Set(["pattern"]);

/**
 * A schema whose prose is without what a person would not see. Null when there is such a thing in names or values: those
 * must reach the server as they are, so that they cannot be cleaned. The schema must be bounded.
 */
export function cleanSchema(schema: JsonObject): JsonObject | null {
  const members: [string, Json][] = [];
  for (const [key, value] of Object.entries(schema)) {
    if (hidesText(key)) return null;
    if (PROSE.has(key) && typeof value === "string") {
      members.push([key, cleanText(value, value.length)]);
    } else if (CODE.has(key)) members.push([key, value]);
    else {
      const clean = cleanValue(value);
      if (clean === undefined) return null;
      members.push([key, clean]);
    }
  }
  return Object.fromEntries(members);
}

function cleanValue(value: Json): Json | undefined {
  if (typeof value === "string") return hidesText(value) ? undefined : value;
  if (isJsonObject(value)) return cleanSchema(value) ?? undefined;
  if (!Array.isArray(value)) return value;
  const list: Json[] = [];
  for (const entry of value) {
    const clean = cleanValue(entry);
    if (clean === undefined) return undefined;
    list.push(clean);
  }
  return list;
}
