import type { Clock } from "../core/clock.ts";
import type { Log } from "../core/log.ts";
import type { Sampler } from "../core/sampling.ts";
import type { Isolation } from "../process/isolate.ts";
import type { HandedSource } from "./handed_source.ts";
import type { Lifeline } from "./lifeline.ts";
import type { TokenSource } from "./oauth/auth_provider.ts";
import type { ConnectionSecrets } from "./secrets/connection_secrets.ts";
import type { ServerTrace } from "./server_trace.ts";

/** The protocol's package, loaded with the first connection. */
export type Sdk = typeof import("@modelcontextprotocol/client");

/** Time that a server gets to end by itself, and again after SIGTERM. */
export const GRACE_MS = 1500;

/** What connecting touches. */
export interface OpenOptions {
  env: (name: string) => string | undefined;
  addSecret(secret: string): void;
  clock: Clock;
  log: Log;
  /** Ends servers that run here should the hub be killed. */
  lifeline: Lifeline;
  /** Keeps programs from seeing the hub's processes; left out where they may. */
  isolation?: Isolation | undefined;
  /** What this connection sends and no text of the server may show. */
  secrets: ConnectionSecrets;
  signal: AbortSignal;
  /** Called when the server says that its tools have changed. */
  onToolsChanged(): void;
  /** Called when it says that its resources or prompts have changed. */
  onContentChanged(): void;
  onClose(): void;
  /** Whose tokens are sent; left out where none are. */
  tokens?: TokenSource | undefined;
  /** Asks models for servers that may; left out where there are none. */
  sample?: Sampler | undefined;
  /** Where what happens is noted; left out where it is not. */
  trace?: ServerTrace | undefined;
  /** What a caller handed over for this connection alone. */
  handed?: HandedSource | undefined;
}
