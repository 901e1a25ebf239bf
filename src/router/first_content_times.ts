import { BoundedMap } from "../core/bounded_map.ts";
import type { Clock } from "../core/clock.ts";
import { MAX_KNOWN_NAMES } from "../core/limits.ts";

interface Times {
  /** Moving average of the time to the first content, and of the calls under way when it was measured. */
  meanMs: number;
  meanBusy: number;
  atMs: number;
  /** The last times, in a ring. */
  ring: number[];
  next: number;
  /** Of the ring, and how many times have come since it was computed. */
  highMs: number;
  stale: number;
}

/** Share of the newest time in the average, at least; more when those before it are old. */
const NEWEST = 0.3;
/** What was measured this long ago counts a third. */
const FADE_MS = 10_000;
const RING = 64;
/** Fewer times tell nothing about a percentile. */
const LEAST = 20;
const PERCENTILE = 0.95;
/** The percentile is computed again after this many new times. */
const REFRESH = 8;
/** What a failure costs in the average, at least: an error that comes at once is no fast answer. */
const LEAST_PENALTY_MS = 1000;

/**
 * How long targets take to their first content; streams and whole answers apart, since the first content of a whole
 * answer is all of it. Kept in this process only.
 */
export class FirstContentTimes {
  readonly #clock: Clock;
  readonly #streamed = new BoundedMap<string, Times>(MAX_KNOWN_NAMES);
  readonly #whole = new BoundedMap<string, Times>(MAX_KNOWN_NAMES);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts an answer that began after `ms`, with `busy` calls under way at its target. */
  answered(targetId: string, { ms, busy, stream }: { ms: number; busy: number; stream: boolean }) {
    const times = this.#average(targetId, { ms, busy, stream });
    times.ring[times.next] = ms;
    times.next = (times.next + 1) % RING;
    times.stale++;
  }

  /** Counts a failure: as twice as long as usual. */
  failed(targetId: string, { ms, busy, stream }: { ms: number; busy: number; stream: boolean }) {
    const before = this.#of(stream).get(targetId)?.meanMs ?? 0;
    const penaltyMs = Math.max(ms, before * 2, LEAST_PENALTY_MS);
    this.#average(targetId, { ms: penaltyMs, busy, stream });
  }

  /** Counts a try that was given up after `ms`: it would have taken longer. */
  givenUp(targetId: string, { ms, busy, stream }: { ms: number; busy: number; stream: boolean }) {
    const before = this.#of(stream).get(targetId)?.meanMs ?? 0;
    if (ms > before) this.#average(targetId, { ms, busy, stream });
  }

  /**
   * What a call would wait now: the average, more when more calls are under way than there were when it was measured.
   * It fades with time, so that a slow target is tried again some day; while a call is under way there, that is it.
   */
  expectedMs(targetId: string, { busy, stream }: { busy: number; stream: boolean }): number {
    const times = this.#of(stream).get(targetId);
    // Never measured: the first to come tries it, the others wait for what comes of that.
    if (times === undefined) return busy === 0 ? 0 : Infinity;
    if (busy === 0) {
      return times.meanMs * Math.exp((times.atMs - this.#clock.coarse()) / FADE_MS);
    }
    return times.meanMs * Math.max(1, (busy + 1) / (times.meanBusy + 1));
  }

  /** The time that one answer in twenty takes longer than; null while too few have come. */
  highMs(targetId: string, stream: boolean): number | null {
    const times = this.#of(stream).get(targetId);
    if (times === undefined || times.ring.length < LEAST) return null;
    if (times.stale >= REFRESH) {
      const sorted = times.ring.toSorted((a, b) => a - b);
      times.highMs = sorted[Math.floor(sorted.length * PERCENTILE)] ?? 0;
      times.stale = 0;
    }
    return times.highMs;
  }

  #of(stream: boolean): BoundedMap<string, Times> {
    return stream ? this.#streamed : this.#whole;
  }

  #average(
    targetId: string,
    { ms, busy, stream }: { ms: number; busy: number; stream: boolean },
  ): Times {
    const atMs = this.#clock.coarse();
    const all = this.#of(stream);
    const times = all.get(targetId);
    if (times === undefined) {
      const first: Times = {
        meanMs: ms,
        meanBusy: busy,
        atMs,
        ring: [],
        next: 0,
        highMs: 0,
        stale: REFRESH,
      };
      all.set(targetId, first);
      return first;
    }
    const share = Math.max(NEWEST, 1 - Math.exp((times.atMs - atMs) / FADE_MS));
    times.meanMs += share * (ms - times.meanMs);
    times.meanBusy += share * (busy - times.meanBusy);
    times.atMs = atMs;
    return times;
  }
}
