import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import type { AnswerPiece } from "../chat_answer.ts";
import type { ChatCall } from "../chat_fields.ts";

/**
 * Gemini signs its thoughts: a signature belongs to the part that it came with and is wanted back there. In chat
 * completions it travels twice, as different clients keep different fields: as an item of `reasoning_details`, and on
 * calls as `extra_content.google.thought_signature`, the way Google's own OpenAI-compatible API has it.
 */
export const SIGNATURE_FORMAT = "google-gemini-v1";

/** The item of a signed thought. */
export function thoughtDetail(text: string, signature: string): AnswerPiece {
  return details({ type: "reasoning.text", text, signature });
}

/** The item of a signed text. */
export function textDetail(signature: string): AnswerPiece {
  return details({ type: "reasoning.encrypted", data: signature });
}

/**
 * The item of a signed call. The hub's agents give calls ids of their own, so the call's place in the answer is noted
 * as well.
 */
export function callDetail(signature: string, call: { id: string; index: number }): AnswerPiece {
  const { id, index } = call;
  return details({ type: "reasoning.encrypted", data: signature, id, tool_call_index: index });
}

/** The members of a call that carry its signature. */
export function signedCall(signature: string): JsonObject {
  return { extra_content: { google: { thought_signature: signature } } };
}

function details(detail: JsonObject): AnswerPiece {
  return { type: "details", details: [{ ...detail, format: SIGNATURE_FORMAT }] };
}

/** The signatures of an assistant message. */
export interface Signatures {
  thoughts: { text: string; signature: string }[];
  /** Of the text, or whatever was said last before any call. */
  text: string | null;
  /** Of each call. */
  calls: (string | null)[];
}

/** Finds the signatures in a message that comes back; those of other providers mean nothing to Gemini. */
export function readSignatures(message: JsonObject, calls: readonly ChatCall[]): Signatures {
  const found: Signatures = {
    thoughts: [],
    text: signatureIn(message),
    calls: calls.map(({ wire }) => signatureIn(wire)),
  };
  const list = message["reasoning_details"];
  for (const detail of Array.isArray(list) ? list : []) {
    if (!isJsonObject(detail)) continue;
    const format = detail["format"] ?? SIGNATURE_FORMAT;
    if (format !== SIGNATURE_FORMAT) continue;
    const { text, signature, data, id, tool_call_index: place } = detail;
    if (typeof signature === "string" && signature !== "") {
      found.thoughts.push({ text: typeof text === "string" ? text : "", signature });
    }
    if (typeof data !== "string" || data === "") continue;
    if (typeof id !== "string" && typeof place !== "number") {
      found.text ??= data;
      continue;
    }
    const named = calls.findIndex((call) => call.id === id);
    const index = named >= 0 ? named : typeof place === "number" ? place : -1;
    if (index in found.calls) found.calls[index] ??= data;
  }
  return found;
}

function signatureIn(object: JsonObject): string | null {
  const extra: Json | undefined = object["extra_content"];
  const google = isJsonObject(extra) ? extra["google"] : undefined;
  const signature = isJsonObject(google) ? google["thought_signature"] : undefined;
  return typeof signature === "string" && signature !== "" ? signature : null;
}
