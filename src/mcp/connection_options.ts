import type { Clock } from "../core/clock.ts";
import type { Log } from "../core/log.ts";
import type { Sampler } from "../core/sampling.ts";
import type { Isolation } from "../process/isolate.ts";
import type { Catalogue } from "./catalogue.ts";
import type { Lifeline } from "./lifeline.ts";
import type { HandedSource } from "./handed_source.ts";
import type { ServerTrace } from "./server_trace.ts";
import type { TokenSource } from "./oauth/auth_provider.ts";
import type { openClient } from "./open_client.ts";

/** What a connection touches. */
export interface ConnectionOptions {
  clock: Clock;
  random: () => number;
  log: Log;
  env: (name: string) => string | undefined;
  addSecret(secret: string): void;
  open: typeof openClient;
  lifeline: Lifeline;
  /** Keeps programs from seeing the hub's processes; left out where they may. */
  isolation?: Isolation | undefined;
  /** What the server listed before this process began. */
  seed?: Catalogue;
  /** Whose tokens are sent; left out where none are. */
  tokens?: TokenSource | undefined;
  /** Asks models for servers that may; left out where there are none. */
  sample?: Sampler | undefined;
  /** Where what happens is noted; left out where it is not. */
  trace?: ServerTrace | undefined;
  /** The credential that a caller handed over, which it is let in with; left out where there is none. */
  handed?: HandedSource | undefined;
  /** Called when another list of tools counts. */
  onTools(): void;
  /** Called when other resources or prompts count. */
  onContent(): void;
  /** Called with what is to be kept for the next process. */
  keep?(catalogue: Catalogue): void;
}
