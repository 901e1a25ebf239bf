import { HubError } from "../core/error.ts";
import type { Json } from "../core/json.ts";
import { REDACTED } from "./redact.ts";
import { isSecretName } from "./secret_shapes.ts";

/** Bounds of one log line's parts: text in characters, lists and objects in entries. */
const MAX_TEXT = 2048;
const MAX_ENTRIES = 50;
const MAX_DEPTH = 6;
const MAX_CAUSES = 8;
/** Read past a cut, so that a secret that lies across it is seen whole and redacted. */
const CUT_MARGIN = 1024;

/** How values become fit for a log line. */
export interface LoggableOptions {
  redact: (text: string) => string;
  /** Whether errors carry their stack. */
  stack: boolean;
}

/**
 * Any value as bounded JSON for a log line. Values under a name like `authorization` are replaced, in objects, maps,
 * `Headers` and lists of header pairs; errors become `{code, message, details?, causes?, stack?}`; what JSON does not
 * know is named in brackets. Never throws, whatever a getter or `toJSON` does; undefined for what is not worth a field.
 */
export function toLoggable(value: unknown, options: LoggableOptions): Json | undefined {
  const open = new Set<object>();

  const visit = (value: unknown, depth: number): Json | undefined => {
    switch (typeof value) {
      case "string":
        return cutText(value, options.redact);
      case "number":
        return Number.isFinite(value) ? value : String(value);
      case "boolean":
        return value;
      case "bigint":
        return String(value);
      case "object":
        return value === null ? null : enter(value, depth);
      default:
        return undefined;
    }
  };

  const enter = (value: object, depth: number): Json | undefined => {
    if (open.has(value)) return "[circular]";
    if (depth >= MAX_DEPTH) return Array.isArray(value) ? "[list]" : "[object]";
    open.add(value);
    try {
      return visitObject(value, depth + 1);
    } catch {
      return "[unreadable]";
    } finally {
      open.delete(value);
    }
  };

  const visitObject = (value: object, depth: number): Json | undefined => {
    if (value instanceof Error) return visitError(value, depth);
    if (value instanceof Date) return Number.isNaN(+value) ? "[no time]" : value.toISOString();
    if (value instanceof URL) return cutText(value.href, options.redact);
    if (value instanceof Headers || value instanceof Map) return visitEntries([...value], depth);
    if (value instanceof Set) return visitList([...value], depth);
    if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
    if (value instanceof ArrayBuffer) return `[${value.byteLength} bytes]`;
    if (Array.isArray(value)) return visitList(value, depth);
    if ("toJSON" in value && typeof value.toJSON === "function") {
      return visit(value.toJSON(), depth);
    }
    return visitEntries(Object.entries(value), depth);
  };

  const visitList = (list: unknown[], depth: number): Json => {
    if (isSecretPair(list)) return [String(list[0]), REDACTED];
    const out = list.slice(0, MAX_ENTRIES).map((item) => visit(item, depth) ?? null);
    if (list.length > MAX_ENTRIES) out.push(`[${list.length - MAX_ENTRIES} more]`);
    return out;
  };

  const visitEntries = (entries: [unknown, unknown][], depth: number): Json => {
    const out: [string, Json][] = [];
    // A header as an object: its name is a value here.
    const names = entries.some(([key, value]) => key === "name" && isSecretText(value));
    for (const [key, value] of entries.slice(0, MAX_ENTRIES)) {
      const name = cutText(String(key), options.redact);
      const hidden = isSecretName(String(key)) || (names && key === "value");
      const shown = hidden ? hide(value) : visit(value, depth);
      if (shown !== undefined) out.push([name, shown]);
    }
    if (entries.length > MAX_ENTRIES) out.push(["more", entries.length - MAX_ENTRIES]);
    return Object.fromEntries(out);
  };

  const visitError = (error: Error, depth: number): Json => {
    const causes = listCauses(error).map((cause) =>
      cause instanceof Error
        ? describeError(cause, options.redact)
        : { code: typeof cause, message: cutText(showThrown(visit(cause, depth)), options.redact) }
    );
    const details = error instanceof HubError ? visit(error.details, depth) : undefined;
    return {
      ...describeError(error, options.redact),
      ...(details === undefined ? {} : { details }),
      ...(causes.length === 0 ? {} : { causes }),
      ...(options.stack && error.stack !== undefined
        // Pretty lines show it line by line, so that a secret of several lines must go before.
        ? { stack: options.redact(cutText(error.stack, options.redact)) }
        : {}),
    };
  };

  return visit(value, 0);
}

/** The text, or its beginning and how long it was. A secret that lies across the cut does not show in part. */
export function cutText(text: string, redact: (text: string) => string, max = MAX_TEXT): string {
  if (text.length <= max) return text;
  const read = redact(text.slice(0, max + CUT_MARGIN));
  // The last stretch of what was read may hold the first half of a secret.
  const kept = read.slice(0, Math.max(0, Math.min(max, read.length - CUT_MARGIN)));
  return `${kept.toWellFormed()}… [cut: ${text.length} characters]`;
}

function describeError(error: Error, redact: (text: string) => string): { [key: string]: Json } {
  const code = "code" in error && typeof error.code === "string" ? error.code : error.name;
  return { code, message: cutText(error.message, redact) };
}

/** Something that was thrown without being an error. */
function showThrown(value: Json | undefined): string {
  return typeof value === "string" ? value : JSON.stringify(value ?? null);
}

/** What led to an error, nearest first; every part of an `AggregateError` counts. */
function listCauses(error: Error): unknown[] {
  const causes: unknown[] = [];
  const waiting: unknown[] = [error];
  for (let at = waiting.shift(); at !== undefined; at = waiting.shift()) {
    if (causes.length > MAX_CAUSES) break;
    if (causes.includes(at)) continue;
    causes.push(at);
    if (at instanceof AggregateError) waiting.push(...at.errors);
    if (at instanceof Error && at.cause !== undefined) waiting.push(at.cause);
  }
  return causes.slice(1);
}

function isSecretPair(list: unknown[]): boolean {
  return list.length === 2 && isSecretText(list[0]);
}

function isSecretText(value: unknown): boolean {
  return typeof value === "string" && isSecretName(value);
}

/** Whether there was anything is told; flags are no secrets. */
function hide(value: unknown): Json | undefined {
  if (value === undefined || value === null || typeof value === "boolean") return value;
  return REDACTED;
}
