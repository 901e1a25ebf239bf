import { isJsonObject, type Json } from "../core/json.ts";
import { readJson } from "./read_json.ts";

/** The strings of a keyword that is one string or a list of them (`type`, `required`). */
export function listOf(value: Json | undefined): string[] {
  if (typeof value === "string") return [value];
  return Array.isArray(value) ? value.filter((entry) => typeof entry === "string") : [];
}

/** True when a value has a JSON Schema type. Names that are no such type fit everything. */
export function typeMatches(type: string, value: Json): boolean {
  switch (type) {
    case "string":
      return typeof value === "string";
    case "number":
      return typeof value === "number";
    case "integer":
      return typeof value === "number" && Number.isInteger(value);
    case "boolean":
      return typeof value === "boolean";
    case "null":
      return value === null;
    case "array":
      return Array.isArray(value);
    case "object":
      return isJsonObject(value);
    default:
      return true;
  }
}

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/**
 * The value a string stands for when a schema wants number, integer, boolean, array or object and no string;
 * undefined when it stands for none of them.
 */
export function coerceTo(types: readonly string[], value: Json): Json | undefined {
  if (typeof value !== "string") return undefined;
  const text = value.trim();
  const read = readScalar(text) ?? readStructure(text);
  return read !== undefined && types.some((type) => typeMatches(type, read)) ? read : undefined;
}

function readScalar(text: string): Json | undefined {
  if (text === "true") return true;
  if (text === "false") return false;
  if (text.length > 40 || !NUMBER.test(text)) return undefined;
  const number = Number(text);
  return Number.isFinite(number) ? number : undefined;
}

function readStructure(text: string): Json | undefined {
  if (!text.startsWith("{") && !text.startsWith("[")) return undefined;
  const read = readJson(text);
  return read.ok ? read.value : undefined;
}
