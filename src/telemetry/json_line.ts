import type { LogEntry } from "./log_entry.ts";
import { utf8Length } from "./utf8_length.ts";

/** Longest line, in UTF-8 bytes, before secrets are taken out. */
export const MAX_LINE_BYTES = 8 * 1024;

/** Kept free for the marks of fields that did not fit. */
const RESERVE_BYTES = 64;

/** One line of JSON: time, level, message, then the fields that fit. */
export function writeJsonLine({ time, level, message, fields }: LogEntry): string {
  let line = `{"time":"${time}","level":"${level}","message":${encodeMessage(message)}`;
  let room = MAX_LINE_BYTES - RESERVE_BYTES - utf8Length(line);
  let left = 0;
  for (const [name, value] of fields) {
    const key = `,${JSON.stringify(name)}:`;
    const text = JSON.stringify(value);
    const bytes = utf8Length(key) + utf8Length(text);
    const member = bytes <= room ? key + text : `${key}"[cut: ${utf8Length(text)} bytes]"`;
    const taken = utf8Length(member);
    if (taken > room) {
      left++;
      continue;
    }
    line += member;
    room -= taken;
  }
  return left === 0 ? `${line}}` : `${line},"fieldsCut":${left}}`;
}

/** Escapes can make a text six times as long; then less of it is kept. */
function encodeMessage(message: string): string {
  const text = JSON.stringify(message);
  if (utf8Length(text) <= MAX_LINE_BYTES * 0.8) return text;
  return JSON.stringify(`${message.slice(0, 512).toWellFormed()}… [cut]`);
}
