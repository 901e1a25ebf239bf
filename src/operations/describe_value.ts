import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { listOf } from "./coerce.ts";

const MAX_TEXT = 60;
const MAX_CHOICES = 20;

/** A value in a few words, for problems a model reads. */
export function describeValue(value: Json): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (isJsonObject(value)) {
    const keys = Object.keys(value).slice(0, MAX_TEXT);
    return keys.length === 0 ? "an empty object" : `an object with ${shorten(keys.join(", "))}`;
  }
  if (typeof value === "string") return `the string ${JSON.stringify(shorten(value))}`;
  return `the ${typeof value} ${value}`;
}

const described = new WeakMap<object, string>();

/** What a schema wants, in a few words, which are made once: its literals may be long. */
export function describeWanted(schema: Json | undefined): string {
  if (!isJsonObject(schema)) return "a value";
  let known = described.get(schema);
  if (known === undefined) described.set(schema, known = describeSchema(schema));
  return known;
}

function describeSchema(schema: JsonObject): string {
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

const named = new WeakMap<object, string>();

/** Which properties there may be, made once too. */
export function describeNames(properties: JsonObject): string {
  let known = named.get(properties);
  if (known === undefined) {
    const names = Object.keys(properties);
    known = names.length === 0 ? "no property" : `one of ${names.slice(0, 20).join(", ")}`;
    named.set(properties, known);
  }
  return known;
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
