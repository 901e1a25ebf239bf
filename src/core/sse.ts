import { HubError } from "./error.ts";
import { MAX_SSE_EVENT_BYTES } from "./limits.ts";

/** One dispatched event of a `text/event-stream`. */
export interface SseEvent {
  /** The `event` field; `message` when the event names none. */
  event: string;
  /** The `data` lines, joined by a line feed. */
  data: string;
  /** The last event id seen so far, `""` when there was none. */
  id: string;
}

/** Bounds of a parser. Lengths are UTF-16 code units, which are never more than the bytes they came from. */
export interface SseParserOptions {
  /** Receives each event as soon as its blank line is read; events before a failure are delivered before it throws. */
  onEvent(event: SseEvent): void;
  /** Longest data of one event. */
  maxEventLength?: number;
  /** Longest line that carries no data (a comment, a foreign field): nobody needs more, and it never ends an event. */
  maxLineLength?: number;
}

/** Reads a stream piece by piece; the pieces may be cut anywhere. */
export interface SseParser {
  /** Takes the next bytes. Throws `upstream_malformed` past a bound, and again on every later call. */
  push(chunk: Uint8Array): void;
  /**
   * Ends the stream. The standard drops an event whose blank line never came; `true` says that there was one, so that a
   * caller may tell a clean end from a cut one.
   */
  end(): boolean;
  /** Reconnection time that the stream asked for, in milliseconds, or null. */
  readonly retryMs: number | null;
}

const MAX_OTHER_LINE_LENGTH = 1024 * 1024;

/**
 * Makes a parser for `text/event-stream` (WHATWG HTML, 9.2.6): LF, CRLF and CR line ends, one byte order mark, comments,
 * several data lines. The result does not depend on how the bytes are cut.
 */
export function createSseParser(options: SseParserOptions): SseParser {
  const { onEvent } = options;
  const maxEventLength = options.maxEventLength ?? MAX_SSE_EVENT_BYTES;
  const maxLineLength = options.maxLineLength ?? MAX_OTHER_LINE_LENGTH;
  // Deno 2.9 drops a byte order mark at the beginning of any piece, not of the stream only, so it is done here.
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  let isBeginning = true;
  let line = "";
  let afterCarriageReturn = false;
  let data: string | null = null;
  let event = "";
  let id = "";
  let retryMs: number | null = null;
  let failure: HubError | null = null;

  const fail = (what: string, limit: number): never => {
    failure = new HubError(
      "upstream_malformed",
      `The event stream sent ${what} longer than the ${limit} characters allowed`,
    );
    line = "";
    data = null;
    throw failure;
  };

  // A started line is measured too, so that an endless one cannot fill the memory.
  const measure = (text: string): void => {
    const isData = text.startsWith("data:");
    const limit = isData ? maxEventLength + "data: ".length : maxLineLength;
    if (text.length > limit) fail(isData ? "a data line" : "a line", limit);
  };

  const readField = (text: string): void => {
    const colon = text.indexOf(":");
    if (colon === 0) return;
    const name = colon < 0 ? text : text.slice(0, colon);
    const from = text.charCodeAt(colon + 1) === 0x20 ? colon + 2 : colon + 1;
    const value = colon < 0 ? "" : text.slice(from);
    if (name === "data") {
      data = data === null ? value : `${data}\n${value}`;
      if (data.length > maxEventLength) fail("an event", maxEventLength);
    } else if (name === "event") event = value;
    else if (name === "id" && !value.includes("\0")) id = value;
    else if (name === "retry" && isDigits(value)) retryMs = Number(value);
  };

  const readLine = (text: string): void => {
    if (text !== "") {
      measure(text);
      readField(text);
      return;
    }
    const dispatched = data === null ? null : { event: event === "" ? "message" : event, data, id };
    data = null;
    event = "";
    if (dispatched !== null) onEvent(dispatched);
  };

  const readText = (text: string): void => {
    let from = 0;
    if (afterCarriageReturn && text !== "") {
      afterCarriageReturn = false;
      if (text.charCodeAt(0) === 0x0a) from = 1;
    }
    let lineFeed = text.indexOf("\n", from);
    // Most streams hold no carriage return: it is looked for once a chunk, then only behind the last one found.
    let carriageReturn = text.indexOf("\r", from);
    while (lineFeed >= 0 || carriageReturn >= 0) {
      const isReturn = carriageReturn >= 0 && (lineFeed < 0 || carriageReturn < lineFeed);
      const at = isReturn ? carriageReturn : lineFeed;
      const rest = text.slice(from, at);
      const whole = line === "" ? rest : line + rest;
      line = "";
      from = at + 1;
      if (isReturn) {
        if (lineFeed === from) from++;
        else if (from === text.length) afterCarriageReturn = true;
        carriageReturn = text.indexOf("\r", from);
      }
      if (lineFeed >= 0 && lineFeed < from) lineFeed = text.indexOf("\n", from);
      readLine(whole);
    }
    if (from < text.length) {
      line += from === 0 ? text : text.slice(from);
      measure(line);
    }
  };

  return {
    push(chunk) {
      if (failure !== null) throw failure;
      const text = decoder.decode(chunk, { stream: true });
      if (text === "") return;
      readText(isBeginning && text.startsWith("\ufeff") ? text.slice(1) : text);
      isBeginning = false;
    },
    end() {
      if (failure !== null) throw failure;
      const rest = decoder.decode();
      const isCut = data !== null || event !== "" || line !== "" || rest !== "";
      line = "";
      data = null;
      event = "";
      return isCut;
    },
    get retryMs() {
      return retryMs;
    },
  };
}

function isDigits(text: string): boolean {
  if (text === "") return false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code < 0x30 || code > 0x39) return false;
  }
  return true;
}

/** What one frame carries. Line feeds in `data` become several data lines; `event` and `id` must hold none. */
export interface SseFrame {
  data: string;
  event?: string;
  id?: string | number;
}

const encoder = new TextEncoder();

/**
 * One frame as bytes: `id`, `event`, then `data`, then a blank line. Throws `internal_error` when `event` or `id` holds a
 * line end, since it would start a frame of its own.
 */
export function encodeSseFrame(frame: SseFrame): Uint8Array {
  let text = "";
  if (frame.id !== undefined) text += `id: ${oneLine("id", String(frame.id))}\n`;
  if (frame.event !== undefined) text += `event: ${oneLine("event", frame.event)}\n`;
  if (hasLineEnd(frame.data)) {
    for (const part of frame.data.split(/\r\n|\n|\r/)) text += `data: ${part}\n`;
  } else text += `data: ${frame.data}\n`;
  return encoder.encode(`${text}\n`);
}

/** A comment line as bytes, blank line included: keeps a connection alive and means nothing. */
export function encodeSseComment(text: string): Uint8Array {
  return encoder.encode(`: ${oneLine("comment", text)}\n\n`);
}

function hasLineEnd(text: string): boolean {
  return text.includes("\n") || text.includes("\r");
}

function oneLine(field: string, text: string): string {
  if (!hasLineEnd(text)) return text;
  throw new HubError("internal_error", `An event stream's ${field} cannot hold a line end`);
}
