import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import type { AssistantContent, ReasoningOrigin } from "../../core/model.ts";
import { refusal } from "../chat_fields.ts";

/** Reasoning of an assistant's turn. */
export type Reasoning = Extract<AssistantContent, { type: "reasoning" }>;

/** Marks what the hub packed; anything else was made by another provider. */
export const MARK = "lh1.";
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Reasoning as `encrypted_content`: who it came from, and all that goes back there. Opaque to clients, not secret. */
export function packReasoning(pieces: readonly Reasoning[]): string {
  const packed = pieces.map(({ text, origin: { provider, model, field, payload } }) =>
    payload === undefined ? { provider, model, field, text } : { provider, model, field, payload }
  );
  const bytes = encoder.encode(JSON.stringify(packed));
  return MARK + bytes.toBase64({ alphabet: "base64url", omitPadding: true });
}

/** The reasoning that a client sends back; none when another provider made it. Throws `invalid_request` for a broken one. */
export function unpackReasoning(text: string, param: string): Reasoning[] {
  if (!text.startsWith(MARK)) return [];
  try {
    const bytes = Uint8Array.fromBase64(text.slice(MARK.length), { alphabet: "base64url" });
    const packed: unknown = JSON.parse(decoder.decode(bytes));
    if (Array.isArray(packed) && packed.every(isJsonObject)) return packed.map(toReasoning);
  } catch {
    // It is told below.
  }
  throw refusal(param, `${param} was changed on its way: send it back as it came, or leave it out`);
}

/** Fields in which reasoning travels; no other is taken from a client. */
const FIELDS: ReadonlySet<unknown> = new Set([
  "reasoning_content",
  "reasoning",
  "reasoning_details",
  "content.thinking",
]);

function toReasoning(packed: JsonObject): Reasoning {
  const { provider, model, field, text, payload } = packed;
  if (typeof provider !== "string" || typeof model !== "string" || !FIELDS.has(field)) {
    throw new Error("no origin");
  }
  const origin: ReasoningOrigin = { provider, model, field: String(field) };
  if (payload !== undefined) origin.payload = payload;
  return { type: "reasoning", text: typeof text === "string" ? text : "", origin };
}

/** The details of both; a text that goes on in the next piece becomes one. */
export function joinDetails(before: Json[], more: readonly Json[]): Json[] {
  for (const detail of more) {
    const last = before.at(-1);
    const goesOn = isJsonObject(last) && isJsonObject(detail) && isText(detail["type"]) &&
      last["type"] === detail["type"] && last["index"] === detail["index"] &&
      (last["signature"] ?? null) === null;
    if (!goesOn) {
      before.push(detail);
      continue;
    }
    const merged: JsonObject = { ...last };
    for (const [name, value] of Object.entries(detail)) {
      if (name === "text" || name === "summary") {
        merged[name] = textOf(last[name]) + textOf(value);
      } else if (value !== null) merged[name] = value;
    }
    before[before.length - 1] = merged;
  }
  return before;
}

const isText = (type: Json | undefined) =>
  type === "reasoning.text" || type === "reasoning.summary";

const textOf = (value: Json | undefined) => typeof value === "string" ? value : "";
