/** Severity of a log line. */
export type LogLevel = "debug" | "info" | "warn" | "error";

/** Facts of a log line; keys in camelCase. Errors are rendered with their code and causes. */
export type LogFields = Record<string, unknown>;

/** Writes log lines. The real one (JSON lines or pretty, redacted) is `telemetry/log.ts`. */
export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** True when lines of this level are written: for fields that cost something to gather. */
  writes(level: LogLevel): boolean;
  /** The same log with fields added to every line. */
  with(fields: LogFields): Log;
}

/** A log that says nothing. */
export const SILENT_LOG: Log = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  writes: () => false,
  with: () => SILENT_LOG,
};
