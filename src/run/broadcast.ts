import type { HubEvent, SequencedEvent } from "../core/event.ts";
import { HubError } from "../core/error.ts";
import { MAX_SUBSCRIBER_BYTES, MAX_SUBSCRIBER_EVENTS } from "../core/limits.ts";
import { renderUiEvent } from "../wire/ui_stream.ts";

/** An event on its way to subscribers. `seq` is null for transient events; `bytes` is its hub frame, encoded once for all. */
export interface LiveEvent {
  seq: number | null;
  event: HubEvent;
  bytes: Uint8Array;
}

/** One reader of a run. Its queue is bounded; past the bound `next` rejects and the reader resumes from its cursor. */
export interface Subscriber {
  /** Events sent before this subscriber came and not yet committed: the part of the log that Postgres does not have. */
  readonly tail: readonly LiveEvent[];
  /** The next events, in order; null after the run's last one. Rejects with `overloaded` when this reader was too slow, or when the run was lost. */
  next(): Promise<LiveEvent[] | null>;
  /** Leaves; the run does not notice. */
  close(): void;
}

class QueuedSubscriber implements Subscriber {
  readonly tail: readonly LiveEvent[];
  readonly #leave: (subscriber: QueuedSubscriber) => void;
  #queue: LiveEvent[] = [];
  #queuedBytes = 0;
  #ended = false;
  #failure: HubError | null = null;
  #wake: (() => void) | null = null;

  constructor(tail: readonly LiveEvent[], leave: (subscriber: QueuedSubscriber) => void) {
    this.tail = tail;
    this.#leave = leave;
  }

  /** The bound is on what waited already: one event may be larger than any queue, and a reader that kept up gets it. */
  push(events: readonly LiveEvent[]): void {
    if (this.#queue.length >= MAX_SUBSCRIBER_EVENTS || this.#queuedBytes >= MAX_SUBSCRIBER_BYTES) {
      this.fail(
        new HubError(
          "overloaded",
          "This reader is too slow for the run: resume from the last event id that arrived",
        ),
      );
      return;
    }
    for (const event of events) {
      this.#queue.push(event);
      this.#queuedBytes += event.bytes.length;
    }
    this.#notify();
  }

  end(): void {
    this.#ended = true;
    this.#notify();
  }

  fail(error: HubError): void {
    this.#failure = error;
    this.#queue = [];
    this.#leave(this);
    this.#notify();
  }

  async next(): Promise<LiveEvent[] | null> {
    for (;;) {
      if (this.#failure !== null) throw this.#failure;
      if (this.#queue.length > 0) {
        const events = this.#queue;
        this.#queue = [];
        this.#queuedBytes = 0;
        return events;
      }
      if (this.#ended) return null;
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
  }

  close(): void {
    this.#leave(this);
    this.end();
  }

  #notify(): void {
    const wake = this.#wake;
    this.#wake = null;
    wake?.();
  }
}

/** Fans one run's events out to its subscribers on this replica. The run never waits for any of them. */
export class Broadcast {
  readonly #subscribers = new Set<QueuedSubscriber>();
  #uncommitted: LiveEvent[] = [];
  #ended = false;

  /** Sends events now. Those that are not committed yet stay in the tail until `committed` covers them. */
  send(events: readonly SequencedEvent[], committed: boolean): void {
    const live = events.map(({ seq, event }) => ({
      seq,
      event,
      bytes: renderUiEvent(event, seq),
    }));
    if (!committed) this.#uncommitted.push(...live);
    this.#fanOut(live);
  }

  /** Sends an event that has no place in the log. */
  sendTransient(event: HubEvent): void {
    this.#fanOut([{ seq: null, event, bytes: renderUiEvent(event, null) }]);
  }

  /** Forgets the tail up to and including `seq`: Postgres has it. */
  committed(seq: number): void {
    if (this.#uncommitted.length === 0) return;
    this.#uncommitted = this.#uncommitted.filter((live) => live.seq !== null && live.seq > seq);
  }

  /** Adds a reader. It gets the uncommitted tail at once and everything sent from now on. */
  subscribe(): Subscriber {
    const subscriber = new QueuedSubscriber(
      [...this.#uncommitted],
      (gone) => this.#subscribers.delete(gone),
    );
    if (this.#ended) subscriber.end();
    else this.#subscribers.add(subscriber);
    return subscriber;
  }

  /** Ends all readers after what they still have queued: the run is over. */
  end(): void {
    this.#ended = true;
    for (const subscriber of this.#subscribers) subscriber.end();
    this.#subscribers.clear();
  }

  /** Breaks all readers off: this replica no longer drives the run. They resume from their cursors. */
  fail(error: HubError): void {
    this.#ended = true;
    for (const subscriber of [...this.#subscribers]) subscriber.fail(error);
  }

  #fanOut(events: readonly LiveEvent[]): void {
    for (const subscriber of [...this.#subscribers]) subscriber.push(events);
  }
}
