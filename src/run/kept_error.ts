import { ERROR_KINDS, type ErrorCode, HubError, type ProviderWords } from "../core/error.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import type { StoredHead } from "../store/idempotency.ts";

/** Refusals of the request itself: the provider would say the same again. */
const KEPT: ReadonlySet<ErrorCode> = new Set(["upstream_rejected", "context_length_exceeded"]);

/** An error as it is kept in place of an answer; null for one that may not come again. */
export function toKeptError(error: HubError): StoredHead | null {
  if (!KEPT.has(error.code)) return null;
  const { code, message, status, clientCode, param, words } = error;
  const kept: JsonObject = {
    code,
    message,
    clientCode,
    ...(param === undefined ? {} : { param }),
    ...(words === undefined ? {} : { words: { ...words } }),
  };
  return { status, response: { error: kept } };
}

/** The error of a kept head; null when there is an answer. `headers` go with it. */
export function fromKeptError(
  { status, response }: StoredHead,
  headers: Readonly<Record<string, string>>,
): HubError | null {
  const { error } = response;
  if (!isJsonObject(error)) return null;
  const { code, message, clientCode, param, words } = error;
  const isKnown = typeof code === "string" && Object.hasOwn(ERROR_KINDS, code);
  return new HubError(isKnown ? code as ErrorCode : "upstream_rejected", String(message), {
    status,
    headers,
    clientCode: String(clientCode),
    ...(typeof param === "string" ? { param } : {}),
    words: toWords(words),
  });
}

/** The provider's own words as they were stored; undefined for an error of before they were. */
function toWords(stored: Json | undefined): ProviderWords | undefined {
  if (!isJsonObject(stored)) return undefined;
  const { dialect, type, extra } = stored;
  return {
    dialect: dialect === "messages" || dialect === "responses" ? dialect : "openai",
    type: typeof type === "string" ? type : null,
    extra: isJsonObject(extra) ? extra : {},
  };
}
