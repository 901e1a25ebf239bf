import { Aborter } from "../core/abort.ts";
import { HubError, toHubError } from "../core/error.ts";
import { MAX_RESPONSE_BYTES } from "../core/limits.ts";
import type { Usage } from "../core/usage.ts";
import type { Target } from "../providers/target.ts";
import { readWhole } from "../providers/read_whole.ts";
import type { UpstreamResponse } from "../providers/transport.ts";
import { SseTap, type TapFacts } from "../wire/sse_tap.ts";
import type { AttemptOptions } from "./attempt_options.ts";
import type { AttemptSpan } from "./attempt_span.ts";
import { AttemptTimers } from "./attempt_timers.ts";
import { assertNoError, assertWhole, isUnsent, refusalOf } from "./attempt_verdicts.ts";
import { holdStream } from "./hold_stream.ts";
import { passedHeaders } from "./passed_headers.ts";
import { describeRequest, type Passage, passageOf } from "./carry.ts";

const EMPTY = new Uint8Array(0);

/**
 * One try on one target: begun, held back until the first content, committed, ended. Before it is committed a failure
 * throws from `open` and nothing of it was shown; afterwards `read` throws, and what was shown stays shown.
 */
export class Attempt {
  readonly target: Target;
  readonly startedAt: number;
  readonly span: AttemptSpan | undefined;
  /** Called at once when it is cancelled, while its transport may still be at it. */
  onCancel: ((reason: HubError) => void) | null = null;
  /** Size of the request's body. */
  readonly requestBytes: number;
  readonly #options: AttemptOptions;
  readonly #abort = new Aborter();
  readonly #timers: AttemptTimers;
  readonly #tap: SseTap;
  readonly #startedMs: number;
  #response: UpstreamResponse | null = null;
  /** How a carried answer passes; null for those of other requests. */
  #passage: Passage | null = null;
  #held: Uint8Array = EMPTY;
  #usage: Usage | null = null;
  #failure: HubError | null = null;
  #firstTokenMs: number | null = null;
  #bytesOut = 0;
  #isAsked = false;
  /** Told by transports as a first byte goes out. */
  #sends = 0;
  #reached = false;
  #ended = false;
  #rejectOpen: ((reason: HubError) => void) | null = null;
  readonly #onProgress = (isAwaited: boolean) => {
    // A part of the request is with the provider, or about to be.
    this.#reached = true;
    this.#timers.awaitClient(isAwaited);
  };
  readonly #onSend = () => {
    if (this.#sends++ === 0) this.#options.onSend?.(this);
  };
  readonly #onPiece = () => this.#timers.touch();
  readonly #onAbort = () => this.cancel(new HubError("client_closed", "The client left"));

  constructor(options: AttemptOptions) {
    const { clock, deadlines, target } = options;
    this.#options = options;
    this.requestBytes = options.body.length;
    this.target = target;
    this.span = options.span;
    this.startedAt = clock.now();
    this.#startedMs = clock.coarse();
    this.#tap = new SseTap(options.wire.createFrames(options));
    const onExpire = (error: HubError) => this.cancel(error);
    this.#timers = new AttemptTimers(target.timeouts, { clock, deadlines, onExpire });
    options.signal.addEventListener("abort", this.#onAbort, { once: true });
    if (options.signal.aborted) this.#onAbort();
  }

  /** True for an answer in events. */
  get stream(): boolean {
    return this.#options.stream || this.#passage === "events";
  }

  /** Status of the upstream's answer; null before there is one. */
  get status(): number | null {
    return this.#response?.status ?? null;
  }

  /** True once the provider may have begun to work: the request is its to bill. */
  get reached(): boolean {
    return this.#reached;
  }

  /** True when the request met the end of a kept connection and was sent again. */
  get resent(): boolean {
    return this.#sends > 1;
  }

  /** What may be estimated when there is no usage; see `WireDialect`. */
  get estimates(): "both" | "input" | "nothing" {
    return this.#options.wire.estimates ?? "both";
  }

  get usage(): Usage | null {
    return this.#usage ?? this.#tap.facts.usage;
  }

  /** Who answered, why and whether the answer ended, as a stream has said it. */
  get answerFacts(): Readonly<TapFacts> {
    return this.#tap.facts;
  }

  get bytesOut(): number {
    return this.#bytesOut;
  }

  /** Bytes of the answer that arrived, shown or not. */
  get bytesIn(): number {
    return Math.max(this.#tap.facts.bytes, this.#bytesOut);
  }

  get firstTokenMs(): number | null {
    return this.#firstTokenMs;
  }

  /** Time since it began, in milliseconds. */
  get durationMs(): number {
    return Math.round(this.#options.clock.coarse() - this.#startedMs);
  }

  /** A field of the upstream's answer (name in lower case), or null. */
  header(name: string): string | null {
    return this.#response?.header(name) ?? null;
  }

  /** Fields of the upstream's answer that clients act on. */
  passedHeaders(): Record<string, string> {
    return Object.assign(passedHeaders(this.#response), this.#options.ownHeaders);
  }

  /**
   * Sends and waits for the first content (a stream) or the whole answer. Rejects with the failure of an attempt that was
   * not committed; of one that is cancelled behind its first byte at once, while its transport may still be at it.
   */
  open(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#rejectOpen = reject;
      this.#open().then(resolve, reject);
    });
  }

  async #open(): Promise<void> {
    const { target, wire, carried } = this.#options;
    try {
      if (this.#failure !== null) throw this.#failure;
      const endpoint = target.endpoints[wire.name] ?? target.endpoints.chat;
      this.#isAsked = true;
      const response = await endpoint.send({
        ...describeRequest(this.#options, endpoint, this.#onProgress),
        signal: this.#abort,
        onSend: this.#onSend,
        connectTimeoutMs: target.timeouts.connectMs,
      });
      this.#response = response;
      this.#reached = true;
      // Stopped in the very turn in which the head came, which nobody has cancelled yet.
      if (this.#failure !== null) throw this.#failure;
      if (!this.stream) this.#timers.commit();
      if (response.status < 200 || response.status > 299) {
        const headers = this.passedHeaders();
        throw await refusalOf(response, { ...this.#options, headers, onPiece: this.#onPiece });
      }
      if (carried !== undefined) this.#passage = passageOf(response, carried);
      if (!this.passes) {
        await (this.stream ? this.#holdStream(response) : this.#holdWhole(response));
      }
      this.#firstTokenMs = this.durationMs;
      if (this.stream || this.passes) this.#timers.commit();
      else this.#timers.stop();
    } catch (error) {
      throw this.#fail(error);
    }
  }

  /** The next bytes for the client, never empty; null when the answer is whole. Throws when it broke off. */
  async read(): Promise<Uint8Array | null> {
    if (this.#held.length > 0) return this.#show(this.#held);
    // It may have been stopped while nobody read.
    if (this.#failure !== null) throw this.#failure;
    if (!(this.stream || this.passes) || this.#ended) {
      this.end();
      return null;
    }
    try {
      for (;;) {
        assertNoError(this.#tap.facts, this.#options.wire, true);
        const chunk = await this.#response?.read() ?? null;
        if (chunk === null) {
          if (!this.passes) assertWhole(this.#tap.facts);
          this.end();
          const rest = this.passes ? this.#tap.finish() : EMPTY;
          return rest.length > 0 ? this.#show(rest) : null;
        }
        this.#timers.touch();
        const frames = this.passes ? this.#passed(chunk) : this.#tapped(chunk);
        if (frames.length > 0) return this.#show(frames);
      }
    } catch (error) {
      throw this.#fail(error);
    }
  }

  /** Stops the upstream at once, in every phase. */
  cancel(reason: HubError): void {
    if (this.#ended) return;
    this.#failure ??= reason;
    this.#abort.abort(reason);
    this.#response?.cancel();
    this.end();
    this.onCancel?.(this.#failure);
    if (this.#sends === 0 && this.#response === null) return;
    this.#reached = true;
    this.#rejectOpen?.(this.#failure);
  }

  /** Lets timers and signals go; idempotent. */
  end(): void {
    this.#ended = true;
    this.#timers.stop();
    this.#options.signal.removeEventListener("abort", this.#onAbort);
  }

  /** Why it failed; null while it has not. */
  get failure(): HubError | null {
    return this.#failure;
  }

  /** The answer is the client's as it comes, behind its head. */
  get passes(): boolean {
    return this.#passage === "events" || this.#passage === "bytes";
  }

  #passed(chunk: Uint8Array): Uint8Array {
    return this.#passage === "events" ? this.#tap.push(chunk) : chunk;
  }

  #show(bytes: Uint8Array): Uint8Array {
    this.#held = EMPTY;
    this.#bytesOut += bytes.length;
    return bytes;
  }

  async #holdStream(response: UpstreamResponse): Promise<void> {
    this.#held = await holdStream(response, {
      ...this.#options,
      facts: this.#tap.facts,
      tapped: (chunk) => this.#tapped(chunk),
      onPiece: this.#onPiece,
    });
  }

  /** The frames of a read that may be shown. An error among them stops the upstream at once. */
  #tapped(chunk: Uint8Array): Uint8Array {
    const frames = this.#tap.push(chunk);
    if (this.#tap.facts.error !== null) this.#response?.cancel();
    return frames;
  }

  async #holdWhole(response: UpstreamResponse): Promise<void> {
    const onPiece = (size: number) => {
      this.#timers.touch();
      this.#tap.facts.bytes = size;
    };
    const bytes = await readWhole(response, { maxBytes: MAX_RESPONSE_BYTES, onPiece });
    try {
      this.#usage = await this.#options.wire.readUsage(bytes, this.#options.redact);
    } catch (error) {
      // An error in place of an answer costs nothing that could be estimated.
      if (toHubError(error).code !== "upstream_malformed") this.#tap.facts.bytes = 0;
      throw error;
    }
    this.#held = bytes;
  }

  /** The failure as the hub tells it: a timer or a client that left is the cause of the abort that the transport reports. */
  #fail(error: unknown): HubError {
    const own = toHubError(error);
    // Stopped or cut while the head was awaited: the provider may be at work on it.
    this.#reached ||= this.#sends > 0 || this.#isAsked && !isUnsent(own);
    const failure = this.#failure ??= own;
    this.#response?.cancel();
    this.end();
    return failure;
  }
}
