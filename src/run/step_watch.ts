import type { LoopBatch } from "../inference/loop_batch.ts";

/** What a run's step is at, for whoever waits for its end. */
export class StepWatch {
  readonly #acting = new Set<string>();
  #spokeMs: number;

  constructor(nowMs: number) {
    this.#spokeMs = nowMs;
  }

  /** When the run has last said something, by the monotonic clock. */
  get spokeMs(): number {
    return this.#spokeMs;
  }

  /** True while a tool runs that must not run twice: broken off, its outcome would be unknown. */
  get isActing(): boolean {
    return this.#acting.size > 0;
  }

  /** The run says this now. */
  saw({ calls = [] }: LoopBatch, nowMs: number): void {
    this.#spokeMs = nowMs;
    for (const { toolCallId, state, effect } of calls) {
      if (state === "started" && effect === "effect") this.#acting.add(toolCallId);
      else this.#acting.delete(toolCallId);
    }
  }
}
