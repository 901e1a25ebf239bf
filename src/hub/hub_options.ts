import type { LoadedConfig } from "../config/load.ts";
import type { Clock } from "../core/clock.ts";
import type { IdSource } from "../core/id.ts";
import type { Log } from "../core/log.ts";
import type { Principal } from "../core/tool.ts";
import type { ResolveName } from "../providers/http1/guarded_connect.ts";
import type { SpanSink } from "../telemetry/tracing.ts";

/** What a hub is built from; everything that differs between a process and a test. */
export interface HubOptions {
  loaded: LoadedConfig;
  clock: Clock;
  ids: IdSource;
  random: () => number;
  randomBytes: (length: number) => Uint8Array;
  log: Log;
  env: (name: string) => string | undefined;
  /** Called with each secret that comes to light, so that the log never shows it. */
  addSecret(secret: string): void;
  /** Takes the secrets that are known out of a text. */
  redact(text: string): string;
  /** Where spans go; null or left out where nobody traces. */
  spans?: SpanSink | null;
  /** Whether the Postgres of a hub that runs on the same data folder will do. */
  sharePostgres?: boolean;
  /** Finds the addresses of the host names of the database's providers; the system, unless told. */
  resolveName?: ResolveName;
  /** A token that this hub takes beside those of keys, and who has it; it must never leave this process. */
  local?: { token: string; principal: Principal };
  /** Number of this process among those that share a port, whose parent has applied all migrations. */
  worker?: number;
}
