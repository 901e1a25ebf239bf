import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import type { Redact } from "../provider_text.ts";
import { hasError } from "./read_error.ts";
import { showToClient } from "./show_to_client.ts";
import { shownObject } from "./shown_members.ts";

/** Longest data of an error frame that is no JSON, in characters. */
const MAX_TEXT = 4000;
const ERROR_EVENT = /^event: ?error[ \r\n]/m;
const MAY_BE_ERROR = /"error"(?!\s*:\s*null)|"detail"|\.failed"|^event: ?error[ \r\n]/m;

/** Whether frames or a body may be errors, before they are parsed. True for some that are none. */
export function mayHaveError(text: string): boolean {
  return MAY_BE_ERROR.test(text);
}

/**
 * The frame as a client may see it, when it is a provider's error: its words without secrets, addresses and ids of the
 * account, in the shape that they came in. Null for every other frame.
 */
export function scrubErrorFrame(
  frame: string,
  decode: () => string,
  redact: Redact,
): string | null {
  if (!mayHaveError(frame)) return null;
  const lines = decode().split(/\r\n|\n|\r/);
  const isData = (line: string) => line.startsWith("data:");
  const data = lines.filter(isData).map((line) => line.slice("data:".length).replace(/^ /, ""))
    .join("\n");
  const shown = scrubErrorText(data, { redact, isError: ERROR_EVENT.test(frame) });
  if (shown === null) return null;
  const others = lines.filter((line) => !isData(line) && line !== "");
  return `${[...others, `data: ${shown}`].join("\n")}\n\n`;
}

/** The same for a whole body, or the data of a frame; `isError` where something else has said that it is one. */
export function scrubErrorText(
  text: string,
  { redact, isError = false }: { redact: Redact; isError?: boolean },
): string | null {
  if (!isError && !mayHaveError(text)) return null;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return showToClient(text, { redact, maxLength: MAX_TEXT }).replaceAll(/[\r\n]+/g, " ");
  }
  if (!isJsonObject(value)) {
    return isError ? JSON.stringify(showToClient(JSON.stringify(value), { redact })) : null;
  }
  const shown = shownError(value, { redact, isError });
  return shown === null ? null : JSON.stringify(shown);
}

function shownError(
  value: JsonObject,
  { redact, isError }: { redact: Redact; isError: boolean },
): JsonObject | null {
  const { type, response, error } = value;
  if (type === "response.failed" && isJsonObject(response)) {
    return { ...value, response: { ...response, error: shownValue(response["error"], redact) } };
  }
  // OpenAI's Responses and others put the error's members beside its type.
  if (isError || type === "error" || value["object"] === "error") return shownObject(value, redact);
  if (!hasError(value)) return null;
  return error === undefined || error === null
    ? shownObject(value, redact)
    : { ...value, error: shownValue(error, redact) };
}

function shownValue(value: Json | undefined, redact: Redact): Json {
  return shownObject({ value: value ?? null }, redact)["value"] ?? null;
}
