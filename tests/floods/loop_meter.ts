/** The longest time, in milliseconds, for which the event loop did one thing. */
export interface LongestStretch {
  /** Time that this thread had a processor: what else the machine does is not in it. */
  cpuMs: number;
  wallMs: number;
}

/** Processor time of the main thread so far, in milliseconds (Linux). */
function mainThreadMs(): number {
  const text = Deno.readTextFileSync(`/proc/self/task/${Deno.pid}/schedstat`);
  return Number(text.slice(0, text.indexOf(" "))) / 1e6;
}

/**
 * Looks at the processor time of its own thread at each turn of the event loop. Needs all permissions: the runtime keeps
 * `/proc` from programs without them.
 */
export class LoopMeter {
  #longest: LongestStretch = { cpuMs: 0, wallMs: 0 };
  #cpuMs = mainThreadMs();
  #wallMs = performance.now();
  #timer: ReturnType<typeof setTimeout>;

  constructor() {
    const look = () => {
      this.#note();
      this.#timer = setTimeout(look, 1);
    };
    this.#timer = setTimeout(look, 1);
  }

  #note(): void {
    const [cpuMs, wallMs] = [mainThreadMs(), performance.now()];
    this.#longest.cpuMs = Math.max(this.#longest.cpuMs, cpuMs - this.#cpuMs);
    this.#longest.wallMs = Math.max(this.#longest.wallMs, wallMs - this.#wallMs);
    this.#cpuMs = cpuMs;
    this.#wallMs = wallMs;
  }

  /** The longest stretch since it was asked last. */
  async take(): Promise<LongestStretch> {
    await new Promise((resolve) => setTimeout(resolve, 1));
    this.#note();
    const longest = this.#longest;
    this.#longest = { cpuMs: 0, wallMs: 0 };
    return longest;
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
