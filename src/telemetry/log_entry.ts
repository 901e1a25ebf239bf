import type { Json } from "../core/json.ts";
import type { LogLevel } from "../core/log.ts";

/** One log line before it becomes text: everything in it is bounded. */
export interface LogEntry {
  /** RFC 3339, in UTC. */
  time: string;
  level: LogLevel;
  message: string;
  fields: [name: string, value: Json][];
}
