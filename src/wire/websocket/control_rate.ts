/** Most control frames in a window, and the window in milliseconds: an honest peer sends one in seconds. */
export const MAX_CONTROL_FRAMES = 1000;
const WINDOW_MS = 10_000;

/** Bounds the pings, pongs and the like of a peer, each of which costs an answer or a turn. */
export class ControlRate {
  #sinceMs = -Infinity;
  #frames = 0;

  /** Counts a frame; false once there are too many in the window. `nowMs` is monotonic time. */
  take(nowMs: number): boolean {
    if (nowMs - this.#sinceMs >= WINDOW_MS) {
      this.#sinceMs = nowMs;
      this.#frames = 0;
    }
    return ++this.#frames <= MAX_CONTROL_FRAMES;
  }
}
