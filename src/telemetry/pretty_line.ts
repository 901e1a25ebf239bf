import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import type { LogLevel } from "../core/log.ts";
import { MAX_LINE_BYTES } from "./json_line.ts";
import type { LogEntry } from "./log_entry.ts";
import { makeSafe } from "./make_safe.ts";
import { utf8Length } from "./utf8_length.ts";

const COLOURS: Record<LogLevel, string> = {
  debug: "\x1b[2m",
  info: "\x1b[32m",
  warn: "\x1b[33m",
  error: "\x1b[31m",
};
const DIM = "\x1b[2m";
const PLAIN = "\x1b[0m";

/** One line for people: `12:00:00.000 INFO  message key=value`; stacks of errors follow on lines of their own. */
export function writePrettyLine(entry: LogEntry, { colour }: { colour: boolean }): string {
  const paint = (code: string, text: string) => colour ? `${code}${text}${PLAIN}` : text;
  const level = entry.level.toUpperCase().padEnd(5);
  let line = `${paint(DIM, entry.time.slice(11, 23))} ${paint(COLOURS[entry.level], level)} ${
    makeSafe(entry.message)
  }`;
  let room = MAX_LINE_BYTES - utf8Length(line);
  for (const [name, value] of entry.fields) {
    const text = showValue(value);
    const bytes = utf8Length(text);
    const shown = bytes + name.length + 2 <= room ? text : `[cut: ${bytes} bytes]`;
    const member = ` ${paint(DIM, `${makeSafe(name)}=`)}${shown}`;
    room -= utf8Length(member);
    if (room < 0) break;
    line += member;
  }
  return line + entry.fields.map(([, value]) => showStack(value)).join("");
}

function showValue(value: Json): string {
  if (typeof value === "string") {
    return /^[\w./:@%+,-]+$/.test(value) ? value : makeSafe(JSON.stringify(value));
  }
  return makeSafe(JSON.stringify(isError(value) ? { ...value, stack: undefined } : value));
}

function showStack(value: Json): string {
  if (!isError(value) || typeof value.stack !== "string") return "";
  return value.stack.split("\n").map((line) => `\n    ${makeSafe(line.trim())}`).join("");
}

function isError(value: Json): value is JsonObject {
  return isJsonObject(value) && typeof value.code === "string" && typeof value.message === "string";
}
