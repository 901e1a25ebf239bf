import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import type { Redact } from "../provider_text.ts";
import { isAccountName } from "./hide_accounts.ts";
import { showToClient } from "./show_to_client.ts";

const MAX_DEPTH = 6;
const MAX_ENTRIES = 32;
/** All further members of an error together, as JSON, in characters. */
const MAX_LENGTH = 4000;

/**
 * Members of a provider's error object for clients: texts as `showToClient` shows them, without members that name the
 * provider's account; of bounded depth, number and length. Empty when they are too long together.
 */
export function shownMembers(
  object: JsonObject,
  { redact, without }: { redact: Redact; without: ReadonlySet<string> },
): JsonObject {
  const shown: JsonObject = {};
  for (const [name, value] of membersOf(object)) {
    if (without.has(name)) continue;
    const clean = cleaned(value, redact, 0);
    if (clean !== undefined && clean !== null) shown[name] = clean;
  }
  const text = JSON.stringify(shown);
  if (text === "{}" || text.length > MAX_LENGTH) return {};
  // A member's name may be what makes its value a secret.
  const clean: unknown = JSON.parse(redact(text));
  return isJsonObject(clean) ? clean : {};
}

/** An error object that keeps its shape, each of its members as `shownMembers` shows them. */
export function shownObject(object: JsonObject, redact: Redact): JsonObject {
  const clean: unknown = JSON.parse(redact(JSON.stringify(cleaned(object, redact, 0) ?? {})));
  return isJsonObject(clean) ? clean : {};
}

function cleaned(value: Json, redact: Redact, depth: number): Json | undefined {
  if (typeof value === "string") return showToClient(value, { redact });
  if (typeof value !== "object" || value === null) return value;
  if (depth >= MAX_DEPTH) return undefined;
  if (Array.isArray(value)) {
    return value.slice(0, MAX_ENTRIES).map((item) => cleaned(item, redact, depth + 1) ?? null);
  }
  const object: JsonObject = {};
  for (const [name, item] of membersOf(value)) {
    const clean = cleaned(item, redact, depth + 1);
    if (clean !== undefined) object[name] = clean;
  }
  return object;
}

function membersOf(object: JsonObject): [string, Json][] {
  return Object.entries(object).filter(([name]) =>
    !isAccountName(name) && /^[\w.@/-]{1,100}$/.test(name)
  )
    .slice(0, MAX_ENTRIES);
}
