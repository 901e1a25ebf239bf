import type { AbortLike } from "../core/abort.ts";
import type { Clock } from "../core/clock.ts";
import { HubError } from "../core/error.ts";
import type { ConcurrencyGate } from "../core/concurrency_gate.ts";
import type { Log } from "../core/log.ts";
import type { Visitor } from "../policy/admission.ts";
import type { AuthenticatedPrincipal } from "../policy/authenticate.ts";
import type { Span } from "../telemetry/tracing.ts";
import type { HubRequest } from "./hub_request.ts";
import type { ErrorShape } from "./on_error.ts";
import { readBody } from "./read_body.ts";
import type { Outcome } from "./reply.ts";

/** What a request came to, once its answer is over. Times in milliseconds. */
export interface CallEnd {
  outcome: Outcome;
  status: number;
  durationMs: number;
  /** The hub's own share of the time to the head of the answer. */
  overheadMs: number;
  bytesOut: number;
}

/** One request as a route sees it; its parts are checked before the route runs. */
export interface Call<P = unknown, Q = unknown, B = unknown> {
  /** `x-request-id` of the answer. */
  readonly requestId: string;
  readonly params: P;
  readonly query: Q;
  readonly body: B;
  /** Who calls. Throws `internal_error` on a public route, which has nobody. */
  readonly principal: AuthenticatedPrincipal;
  readonly request: HubRequest;
  /** The part of the target behind the question mark, as it came. */
  readonly search: string;
  /** Aborts exactly when the client left, or the server gave up, before the answer was whole. */
  readonly signal: AbortLike;
  readonly left: boolean;
  /** How a trace tells the request; null where there is none. */
  readonly span: Span | null;
  readonly log: Log;
  readonly clock: Clock;
  /** `clock.monotonic()` at the arrival of the header. */
  readonly receivedMs: number;
  /** The whole body, decoded and bounded; later calls give the same promise. */
  readBody(): Promise<Uint8Array>;
  /** Takes time that went by waiting for an upstream out of the overhead that is reported. */
  addUpstreamWait(ms: number): void;
  /** Calls back once after the last byte, or when the client left or the answer was cut. */
  onEnd(callback: (end: CallEnd) => void): void;
}

/** What a call is made from. */
export interface CallOptions {
  requestId: string;
  search: string;
  clock: Clock;
  log: Log;
  maxBodyBytes: number;
}

/** The state behind a `Call`. Parts are set once, by the route's own parser. */
export class CallState implements Call, Visitor {
  readonly requestId: string;
  readonly request: HubRequest;
  readonly search: string;
  readonly clock: Clock;
  readonly receivedMs: number;
  params: unknown = {};
  query: unknown = {};
  body: unknown = null;
  maxBodyBytes: number;
  /** How failures are told, where that is not as the route says. */
  errors: ErrorShape | null = null;
  /** How a trace tells it. */
  span: Span | null = null;
  /** Whoever the route table let in; null on public routes and before the check. */
  authenticated: AuthenticatedPrincipal | null = null;
  keyGate: ConcurrencyGate | null = null;
  hubGate: ConcurrencyGate | null = null;
  overheadMs = 0;
  readonly ends: ((end: CallEnd) => void)[] = [];
  readonly #log: Log;
  #ownLog: Log | null = null;
  #body: Promise<Uint8Array> | null = null;
  #upstreamMs = 0;

  constructor(request: HubRequest, options: CallOptions) {
    this.request = request;
    this.requestId = options.requestId;
    this.search = options.search;
    this.clock = options.clock;
    this.receivedMs = options.clock.monotonic();
    this.maxBodyBytes = options.maxBodyBytes;
    this.#log = options.log;
  }

  get principal(): AuthenticatedPrincipal {
    if (this.authenticated !== null) return this.authenticated;
    throw new HubError("internal_error", "A public route asked who calls");
  }

  get signal(): AbortLike {
    return this.request.signal;
  }

  get left(): boolean {
    return this.request.left;
  }

  get log(): Log {
    this.#ownLog ??= this.#log.with({ requestId: this.requestId });
    return this.#ownLog;
  }

  readBody(): Promise<Uint8Array> {
    this.#body ??= readBody(this.request, this.maxBodyBytes);
    return this.#body;
  }

  addUpstreamWait(ms: number): void {
    this.#upstreamMs += ms;
  }

  onEnd(callback: (end: CallEnd) => void): void {
    this.ends.push(callback);
  }

  /** Fixes the overhead at the moment the head is about to be sent, in milliseconds. */
  measureOverhead(): number {
    const elapsedMs = this.clock.monotonic() - this.receivedMs;
    this.overheadMs = Math.max(0, elapsedMs - this.#upstreamMs);
    return this.overheadMs;
  }
}
