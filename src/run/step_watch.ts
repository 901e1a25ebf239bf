import type { LoopBatch } from "../inference/loop_batch.ts";

/** What a run's step is at, for whoever waits for its end. */
export class StepWatch {
  readonly #acting = new Set<string>();
  readonly #acted = new Map<string, string>();
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

  /** Names of the tools with effects that were begun, by call. */
  get acted(): ReadonlyMap<string, string> {
    return this.#acted;
  }

  /** The run says this now. */
  saw({ calls = [] }: LoopBatch, nowMs: number): void {
    this.#spokeMs = nowMs;
    for (const { toolCallId, toolName, state, effect } of calls) {
      if (state === "started" && effect === "effect") {
        this.#acting.add(toolCallId);
        this.#acted.set(toolCallId, toolName);
      } else this.#acting.delete(toolCallId);
    }
  }
}
