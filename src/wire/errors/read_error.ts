import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import type { Redact } from "../provider_text.ts";
import { showToClient } from "./show_to_client.ts";
import { shownMembers } from "./shown_members.ts";

/** What a provider says of a failure, as far as clients may see it: bounded, without secrets, addresses and accounts. */
export interface ProviderError {
  /** Empty when it says nothing that is meant for people. */
  message: string;
  type: string | null;
  /** A number that is an HTTP status is in `status` instead. */
  code: string | null;
  param: string | null;
  /** HTTP status that the error itself names, 400 to 599. */
  status: number | null;
  /** Further members of the error object. */
  extra: JsonObject;
}

/** Members of an error object that have a place of their own. */
const OWN_MEMBERS: ReadonlySet<string> = new Set(["message", "type", "code", "param", "error"]);
/** Where servers put the text, the first that has one counts. */
const TEXTS = [
  "message",
  "detail",
  "error_description",
  "error_message",
  "msg",
  "Message",
  "title",
];
const MAX_ITEMS = 8;

/**
 * Reads the error in a body, a frame or an error object, whichever server wrote it: OpenAI's, Anthropic's and Google's
 * `{error: {…}}`, Ollama's `{error: "text"}`, FastAPI's `{detail: "text" | [{loc, msg}]}`, lists, nested errors and a line
 * of plain text. `body` is parsed JSON, or the text that is none; a page of HTML says nothing.
 */
export function readProviderError(body: unknown, redact: Redact): ProviderError {
  const { object, isError } = errorObject(body);
  const show = (text: string) => showToClient(text, { redact });
  const word = (value: unknown) =>
    typeof value === "string" && value !== ""
      ? showToClient(value, { redact, maxLength: 100 })
      : null;
  const { code } = object;
  const status = statusIn(code) ?? statusIn(object["status"]) ?? statusIn(object["status_code"]);
  const isStatus = statusIn(code) !== null;
  const type = object["type"] ?? object["error_type"];
  return {
    message: show(messageOf(object)),
    type: type === "error" ? null : word(type),
    code: isStatus ? null : word(typeof code === "number" ? String(code) : code),
    param: word(object["param"] ?? placeOf(object["detail"])),
    status,
    extra: isError ? shownMembers(object, { redact, without: OWN_MEMBERS }) : {},
  };
}

/** Members of which every answer, and every frame of one, has at least one. */
const MEMBERS_OF_ANSWERS = [
  "type",
  "object",
  "id",
  "choices",
  "content",
  "data",
  "candidates",
  "done",
];

/**
 * True for a frame or an answer that is an error: it has an `error`, says that it is one as vLLM's do, or has FastAPI's
 * `detail` and nothing of an answer.
 */
export function hasError(value: JsonObject): boolean {
  const { error, object, message, detail } = value;
  if (error !== undefined && error !== null) return true;
  if (object === "error" && message !== undefined) return true;
  return textOf(detail) !== "" && MEMBERS_OF_ANSWERS.every((name) => value[name] === undefined);
}

/** The text of the error in a body, as the provider wrote it; empty when it says nothing. */
export function errorTextIn(body: unknown): string {
  return messageOf(errorObject(body).object);
}

/** The object with the error's members; `isError`: nothing but the error's own are in it. */
function errorObject(body: unknown): { object: JsonObject; isError: boolean } {
  const value: unknown = Array.isArray(body) ? body[0] : body;
  if (typeof value === "string") return { object: { message: lineOf(value) }, isError: false };
  if (!isJsonObject(value)) return { object: {}, isError: false };
  const { error, errors } = value;
  if (isJsonObject(error)) {
    const inner = error["error"];
    const nested = isJsonObject(inner) && textOf(error["message"]) === "" ? inner : error;
    return { object: nested, isError: true };
  }
  const listed = [error, errors].find((list) => Array.isArray(list) && list.length > 0);
  if (Array.isArray(listed)) {
    const [first] = listed;
    if (isJsonObject(first)) return { object: { ...first }, isError: false };
    return { object: { ...value, message: textOf(listed) }, isError: false };
  }
  const hasOwnText = TEXTS.some((name) => textOf(value[name]) !== "");
  if (typeof error === "string" && !hasOwnText) {
    return { object: { ...value, message: textOf(error) }, isError: false };
  }
  return { object: value, isError: false };
}

function messageOf(object: JsonObject): string {
  for (const name of TEXTS) {
    const text = textOf(object[name]);
    if (text !== "") return text;
  }
  return "";
}

/** A text, or the texts of a list of problems with the places they are of. */
function textOf(value: Json | undefined): string {
  if (typeof value === "string") return isPage(value) ? "" : value;
  if (Array.isArray(value)) {
    return value.slice(0, MAX_ITEMS).map(problemOf).filter((text) => text !== "").join("; ");
  }
  return isJsonObject(value) ? problemOf(value) : "";
}

function problemOf(item: Json): string {
  if (typeof item === "string") return item;
  if (!isJsonObject(item)) return "";
  const said = item["msg"] ?? item["message"] ?? item["error"] ?? item["detail"];
  const text = typeof said === "string" ? said : Array.isArray(said) ? textOf(said) : "";
  const place = placeOf([item]);
  return place === undefined || text === "" ? text : `${place}: ${text}`;
}

/** `messages.0.content` of FastAPI's `loc: ["body", "messages", 0, "content"]`; undefined where there is none. */
function placeOf(detail: Json | undefined): string | undefined {
  const first: Json | undefined = Array.isArray(detail) ? detail[0] : undefined;
  const loc = isJsonObject(first) ? first["loc"] : undefined;
  if (!Array.isArray(loc)) return undefined;
  const path = loc.slice(0, 16).filter((part) =>
    typeof part === "string" || typeof part === "number"
  );
  const inBody = path[0] === "body" && path.length > 1 ? path.slice(1) : path;
  return inBody.length === 0 ? undefined : inBody.join(".");
}

/** Plain text that is one line, as servers write by hand; pages and stack traces say nothing to clients. */
function lineOf(text: string): string {
  const line = text.slice(0, 4000).trim();
  return isPage(line) || /[\r\n]/.test(line) || /^[{[]/.test(line) ? "" : line;
}

function isPage(text: string): boolean {
  return /^\s*</.test(text);
}

function statusIn(value: Json | undefined): number | null {
  const number = typeof value === "string" && /^\d{3}$/.test(value) ? Number(value) : value;
  return typeof number === "number" && Number.isInteger(number) && number >= 400 && number <= 599
    ? number
    : null;
}
