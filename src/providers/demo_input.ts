import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";

/** Characters of a prompt that are looked at: quotes and braces that do not close make the search quadratic. */
const MAX_PROMPT_LENGTH = 4096;

/**
 * Arguments for a tool: the JSON object in the prompt if there is one, else the required members of the schema filled
 * from the prompt's quoted strings and numbers, then with examples of their types.
 */
export function sampleInput(schema: JsonObject, prompt: string): JsonObject {
  const text = prompt.slice(0, MAX_PROMPT_LENGTH);
  const given = jsonIn(text);
  if (given !== null) return given;
  const found: Found = {
    texts: [...text.matchAll(/["“']([^"”']+)["”']/g)].map((match) => match[1] ?? ""),
    numbers: [...text.matchAll(/-?\d+(\.\d+)?/g)].map((match) => Number(match[0])),
  };
  return objectOf(schema, found, 0);
}

interface Found {
  texts: string[];
  numbers: number[];
}

function objectOf(schema: JsonObject, found: Found, depth: number): JsonObject {
  const properties = isJsonObject(schema["properties"]) ? schema["properties"] : {};
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  const input: JsonObject = {};
  for (const name of required) {
    if (typeof name !== "string") continue;
    const member = properties[name];
    input[name] = valueOf(isJsonObject(member) ? member : {}, found, depth + 1);
  }
  return input;
}

function valueOf(schema: JsonObject, found: Found, depth: number): Json {
  const choices = [schema["anyOf"], schema["oneOf"]].find(Array.isArray);
  const types = Array.isArray(schema["type"]) ? schema["type"] : [schema["type"]];
  if (schema["const"] !== undefined) return schema["const"];
  if (
    types.includes("null") || choices?.some((one) => isJsonObject(one) && one["type"] === "null")
  ) {
    return null;
  }
  if (Array.isArray(schema["enum"])) return schema["enum"][0] ?? null;
  if (choices !== undefined) {
    return isJsonObject(choices[0]) ? valueOf(choices[0], found, depth) : null;
  }
  if (depth > 8) return null;
  switch (types[0]) {
    case "object":
      return objectOf(schema, found, depth);
    case "array":
      return isJsonObject(schema["items"]) ? [valueOf(schema["items"], found, depth + 1)] : [];
    case "integer":
      return Math.round(found.numbers.shift() ?? 1);
    case "number":
      return found.numbers.shift() ?? 1;
    case "boolean":
      return true;
    default:
      return found.texts.shift() ?? "example";
  }
}

/** The first balanced JSON object in the beginning of a text. */
export function jsonIn(whole: string): JsonObject | null {
  const text = whole.slice(0, MAX_PROMPT_LENGTH);
  const from = text.indexOf("{");
  for (let to = text.indexOf("}", from); from >= 0 && to > 0; to = text.indexOf("}", to + 1)) {
    try {
      const value: unknown = JSON.parse(text.slice(from, to + 1));
      return isJsonObject(value) ? value : null;
    } catch {
      // Not balanced yet: the next closing brace may be.
    }
  }
  return null;
}
