import type { Clock } from "../../src/core/clock.ts";

/** A clock that stands still until a test moves it. */
export interface FakeClock extends Clock {
  /** Moves time on, fires due timers in order, and lets promises settle around each. */
  advance(ms: number): Promise<void>;
  /** Timers that wait. */
  pending(): number;
}

interface Waiting {
  dueMs: number;
  order: number;
  callback: () => void;
}

/** Lets everything that is ready run: microtasks, and two turns of the event loop for I/O-free continuations. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 2; turn++) {
    await new Promise<void>((resolve) => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => {
        port1.close();
        resolve();
      };
      port2.postMessage(null);
    });
  }
}

/** Makes a fake clock that starts at `startMs` since the epoch. */
export function createFakeClock(startMs = 1_800_000_000_000): FakeClock {
  let nowMs = startMs;
  let order = 0;
  const waiting = new Set<Waiting>();
  return {
    now: () => nowMs,
    monotonic: () => nowMs - startMs,
    coarse: () => nowMs - startMs,
    setTimer(callback, delayMs) {
      const timer: Waiting = { dueMs: nowMs + Math.max(0, delayMs), order: order++, callback };
      waiting.add(timer);
      return timer;
    },
    clearTimer(timer) {
      waiting.delete(timer as Waiting);
    },
    async advance(ms) {
      const untilMs = nowMs + ms;
      await settle();
      for (;;) {
        let next: Waiting | undefined;
        for (const timer of waiting) {
          if (timer.dueMs > untilMs) continue;
          if (
            next === undefined || timer.dueMs < next.dueMs ||
            (timer.dueMs === next.dueMs && timer.order < next.order)
          ) next = timer;
        }
        if (next === undefined) break;
        waiting.delete(next);
        nowMs = Math.max(nowMs, next.dueMs);
        next.callback();
        await settle();
      }
      nowMs = untilMs;
    },
    pending: () => waiting.size,
  };
}
