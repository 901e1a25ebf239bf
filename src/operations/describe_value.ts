import { isJsonObject, type Json } from "../core/json.ts";
import { listOf } from "./coerce.ts";

const MAX_TEXT = 60;
const MAX_CHOICES = 20;

/** A value in a few words, for problems a model reads. */
export function describeValue(value: Json): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (isJsonObject(value)) {
    const keys = Object.keys(value);
    return keys.length === 0 ? "an empty object" : `an object with ${shorten(keys.join(", "))}`;
  }
  if (typeof value === "string") return `the string ${JSON.stringify(shorten(value))}`;
  return `the ${typeof value} ${value}`;
}

/** What a schema wants, in a few words. */
export function describeWanted(schema: Json | undefined): string {
  if (!isJsonObject(schema)) return "a value";
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (Array.isArray(schema.enum)) {
    const choices = schema.enum.slice(0, MAX_CHOICES).map((choice) => JSON.stringify(choice));
    if (schema.enum.length > MAX_CHOICES) choices.push("…");
    return choices.length === 1 ? choices.join("") : `one of ${choices.join(", ")}`;
  }
  const types = listOf(schema.type);
  if (types.length > 0) return types.join(" or ");
  for (const branches of [schema.anyOf, schema.oneOf]) {
    if (!Array.isArray(branches)) continue;
    const choices = new Set(branches.slice(0, MAX_CHOICES).map(describeBranch));
    return [...choices].join(" or ");
  }
  return "a value that fits the schema";
}

/** Not deeper than one union, so that recursive schemas end. */
function describeBranch(branch: Json): string {
  if (!isJsonObject(branch)) return "a value";
  return branch.anyOf === undefined && branch.oneOf === undefined
    ? describeWanted(branch)
    : "another form";
}

function shorten(text: string): string {
  return text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT)}…`;
}
