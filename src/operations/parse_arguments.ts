import type { Json } from "../core/json.ts";
import { endOfString, type JsonRead, readJson } from "./read_json.ts";

/** A repair that was needed before the arguments could be read. */
export type ArgumentRepair = "code-fence" | "trailing-comma" | "double-encoding";

/** What became of a model's argument text. `problem` is a sentence for the model. */
export type ParsedArguments =
  | { ok: true; input: Json; repairs: ArgumentRepair[] }
  | { ok: false; problem: string };

/**
 * Reads the text a model sent as arguments. Empty text is `{}`. Beyond strict JSON three repairs are allowed: a code
 * fence around it, commas before a closing bracket, and one level of double encoding. Open strings and brackets are
 * never closed: such text was cut, and a guess could run a tool with half of its arguments. Never throws.
 */
export function parseArguments(text: string): ParsedArguments {
  if (text.trim() === "") return { ok: true, input: {}, repairs: [] };
  const repairs: ArgumentRepair[] = [];
  const outer = readRepaired(text, repairs);
  if (!outer.ok) return outer;
  let input = outer.value;
  if (typeof input === "string") {
    repairs.push("double-encoding");
    if (input.trim() === "") return { ok: true, input: {}, repairs };
    const inner = readRepaired(input, repairs);
    if (!inner.ok) {
      return { ok: false, problem: `A JSON string arrived where an object was wanted` };
    }
    input = inner.value;
  }
  return { ok: true, input, repairs };
}

function readRepaired(text: string, repairs: ArgumentRepair[]): JsonRead {
  const strict = readJson(text);
  if (strict.ok) return strict;
  const unfenced = withoutFence(text);
  if (unfenced !== null) {
    const read = readJson(unfenced);
    if (read.ok) {
      repairs.push("code-fence");
      return read;
    }
  }
  const bare = unfenced ?? text;
  const trimmed = withoutTrailingCommas(bare);
  if (trimmed !== bare) {
    const read = readJson(trimmed);
    if (read.ok) {
      if (unfenced !== null) repairs.push("code-fence");
      repairs.push("trailing-comma");
      return read;
    }
  }
  return strict;
}

function withoutFence(text: string): string | null {
  const trimmed = text.trim();
  if (!trimmed.startsWith("```") || !trimmed.endsWith("```") || trimmed.length < 6) return null;
  const inside = trimmed.slice(3, -3);
  const language = /^(?:json|JSON|json5|javascript|js)?\s/.exec(inside);
  return language === null ? inside : inside.slice(language[0].length);
}

function withoutTrailingCommas(text: string): string {
  let kept = "";
  let from = 0;
  let before = 0;
  for (let at = 0; at < text.length; at++) {
    const char = text.charCodeAt(at);
    if (char === 0x22) at = endOfString(text, at);
    else if (isSpace(char)) continue;
    else if (char === 0x2c && before !== 0x5b && before !== 0x7b && closesNext(text, at + 1)) {
      kept += text.slice(from, at);
      from = at + 1;
    }
    before = char;
  }
  return kept + text.slice(from);
}

function closesNext(text: string, from: number): boolean {
  for (let at = from; at < text.length; at++) {
    const char = text.charCodeAt(at);
    if (isSpace(char)) continue;
    return char === 0x5d || char === 0x7d;
  }
  return false;
}

function isSpace(char: number): boolean {
  return char === 0x20 || char === 0x09 || char === 0x0a || char === 0x0d;
}
