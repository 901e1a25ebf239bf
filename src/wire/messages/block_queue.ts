import type { JsonObject } from "../../core/json.ts";
import type { AnswerBlock } from "./answer_blocks.ts";

interface Queued {
  block: AnswerBlock;
  /** Deltas that wait for the blocks before it to end. */
  waiting: JsonObject[];
}

/** Sends blocks one after another, as clients want them, though a chat may mix the arguments of several calls. */
export class BlockQueue {
  readonly #queued: Queued[] = [];
  #head = 0;
  #open = false;

  /** The block that was added last; null before the first. */
  get last(): AnswerBlock | null {
    return this.#queued.at(-1)?.block ?? null;
  }

  get blocks(): JsonObject[] {
    return this.#queued.map(({ block }) => block.block);
  }

  /** Ends what can end before it, and begins the block unless it has to wait. */
  add(block: AnswerBlock): JsonObject[] {
    this.#queued.push({ block, waiting: [] });
    return this.#advance(false);
  }

  /** A delta of a block; one that comes after its block has ended says nothing. */
  delta(block: AnswerBlock, delta: JsonObject): JsonObject[] {
    const index = this.#queued.findLastIndex((queued) => queued.block === block);
    if (index === this.#head) return [this.#event("content_block_delta", { delta })];
    if (index < this.#head) return [];
    this.#queued[index]?.waiting.push(delta);
    return this.#advance(false);
  }

  /** Ends all blocks. */
  end(): JsonObject[] {
    return this.#advance(true);
  }

  #advance(isEnd: boolean): JsonObject[] {
    const events: JsonObject[] = [];
    for (;;) {
      const queued = this.#queued[this.#head];
      if (queued === undefined) return events;
      const { block, waiting } = queued;
      if (!this.#open) {
        events.push(this.#event("content_block_start", { content_block: block.start }));
        for (const delta of waiting) events.push(this.#event("content_block_delta", { delta }));
        waiting.length = 0;
        this.#open = true;
      }
      const isLast = this.#head === this.#queued.length - 1;
      if (!isEnd && (isLast || !block.whole)) return events;
      for (const delta of block.end()) events.push(this.#event("content_block_delta", { delta }));
      events.push(this.#event("content_block_stop", {}));
      this.#head++;
      this.#open = false;
    }
  }

  #event(type: string, members: JsonObject): JsonObject {
    return { type, index: this.#head, ...members };
  }
}
