import type { Clock } from "../core/clock.ts";
import type { Json } from "../core/json.ts";
import type { Log, LogFields, LogLevel } from "../core/log.ts";
import { cutText, toLoggable } from "./loggable.ts";
import { visibleJsonText } from "../core/visible_text.ts";
import { writeJsonLine } from "./json_line.ts";
import type { LogEntry } from "./log_entry.ts";
import { writePrettyLine } from "./pretty_line.ts";

/** What a log is made of. */
export interface LogOptions {
  /** Lowest level that is written. */
  level: LogLevel;
  format: "json" | "pretty";
  /** Whether pretty lines are coloured; meant for terminals only. */
  colour?: boolean;
  /** Takes one line, without its line break (pretty lines of errors at level debug have further lines). */
  write: (line: string) => void;
  clock: Clock;
  /** Takes secrets out of a text; applied to every line as the last thing before `write`. */
  redact: (text: string) => string;
}

const LEVELS: readonly LogLevel[] = ["debug", "info", "warn", "error"];

/** Names that every line has already; a field of that name gets a `_` behind it. */
const RESERVED: ReadonlySet<string> = new Set(["time", "level", "message"]);

/**
 * Makes a log. Lines are at most 8 KiB: what does not fit is cut, and says so. Stacks are written only when the log's
 * own level is debug. A level that is off costs one call of an empty function.
 */
export function createLog(options: LogOptions): Log {
  return createChild(options, {});
}

function createChild(options: LogOptions, bound: LogFields): Log {
  const writes = (level: LogLevel) => LEVELS.indexOf(level) >= LEVELS.indexOf(options.level);
  const at = (level: LogLevel) =>
    !writes(level) ? () => {} : (message: string, fields?: LogFields) => {
      writeEntry(options, toEntry(level, message, { options, fields: { ...bound, ...fields } }));
    };
  return {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    writes,
    with: (fields) => createChild(options, { ...bound, ...fields }),
  };
}

function toEntry(
  level: LogLevel,
  message: string,
  { options, fields }: { options: LogOptions; fields: LogFields },
): LogEntry {
  // Seen as one object, so that secret names count at the top level too.
  const loggable = toLoggable(fields, {
    redact: options.redact,
    stack: options.level === "debug",
  });
  const members = typeof loggable === "object" && loggable !== null ? Object.entries(loggable) : [];
  return {
    time: new Date(options.clock.now()).toISOString(),
    level,
    message: cutText(message, options.redact),
    fields: members.map(([name, value]) => [RESERVED.has(name) ? `${name}_` : name, value as Json]),
  };
}

function writeEntry({ format, colour, redact, write }: LogOptions, entry: LogEntry): void {
  const line = format === "json"
    ? writeJsonLine(entry)
    : writePrettyLine(entry, { colour: colour === true });
  try {
    const clean = redact(line);
    write(format === "json" ? visibleJsonText(clean) : clean);
  } catch {
    // A closed pipe or a full disk under the log must not take the hub down, and there is nowhere to tell.
  }
}
