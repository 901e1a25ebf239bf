import type { AbortLike } from "../core/abort.ts";
import type { Clock } from "../core/clock.ts";
import type { Deadlines } from "../core/deadlines.ts";
import type { Target } from "../providers/target.ts";
import type { HeaderPairs } from "../providers/transport.ts";
import type { Redact } from "../wire/provider_text.ts";
import type { WireDialect } from "../wire/wire_dialect.ts";
import type { AttemptSpan } from "./attempt_span.ts";
import type { Carried } from "./carried.ts";

/** A try whose first byte goes out. `startedAt` is milliseconds since the epoch. */
export interface Begun {
  readonly target: Target;
  readonly stream: boolean;
  readonly startedAt: number;
  /** Size of the request's body. */
  readonly requestBytes: number;
}

/** What one try sends, and how. */
export interface AttemptOptions {
  target: Target;
  /** What the request is said in: one that the target serves. */
  wire: WireDialect;
  body: Uint8Array;
  /** Fields of this request beside those of its target; none unless told. */
  headers?: HeaderPairs;
  /** Behind the address of the dialect, for what else is there. */
  subpath?: string;
  /** What the request is when it is not a POST of JSON to the dialect's own address. */
  carried?: Carried | undefined;
  stream: boolean;
  /** Choices that a whole stream has. */
  choices: number;
  /** Cut the usage frame out: the client did not ask for it. */
  hideUsage: boolean;
  signal: AbortLike;
  redact: Redact;
  clock: Clock;
  deadlines: Deadlines;
  /** The hub's own fields of the answer; they win over the provider's. */
  ownHeaders?: Readonly<Record<string, string>>;
  /** Called once, right before the first byte goes to the provider. */
  onSend?: (begun: Begun) => void;
  /** How a trace tells it; left out where there is none. */
  span?: AttemptSpan;
}

/** What of them depends on the request alone. */
export type Prepared = Pick<
  AttemptOptions,
  "wire" | "body" | "hideUsage" | "headers" | "subpath" | "carried"
>;
