import type { JsonObject } from "../../core/json.ts";
import type { ItemEnd, ItemEvent, OpenItem } from "./output_items.ts";

interface Queued {
  item: OpenItem;
  /** Events that wait until the items before this one are done. */
  waiting: ItemEvent[];
}

/**
 * Sends the items of an output one after another, as OpenAI does: each is done before the next is added, though a chat
 * may mix the arguments of several calls. Clients act on a call when its item is done, and on one at a time.
 */
export class ItemQueue {
  readonly #queued: Queued[] = [];
  #head = 0;
  #open = false;

  /** The item that was added last; null before the first. */
  get last(): OpenItem | null {
    return this.#queued.at(-1)?.item ?? null;
  }

  get length(): number {
    return this.#queued.length;
  }

  /** The items as they are now. */
  get items(): JsonObject[] {
    return this.#queued.map(({ item }) => item.item);
  }

  /** Ends what can end before the item, and begins it unless it has to wait. */
  add(item: OpenItem): ItemEvent[] {
    this.#queued.push({ item, waiting: [] });
    return this.#advance(null);
  }

  /** Events of an item that `make` makes now or, while the items before it go on, later; an item that is done says nothing. */
  say(item: OpenItem, make: () => ItemEvent[]): ItemEvent[] {
    const index = this.#queued.findLastIndex((queued) => queued.item === item);
    if (index < this.#head) return [];
    const events = make();
    if (index === this.#head) return events;
    this.#queued[index]?.waiting.push(...events);
    return this.#advance(null);
  }

  /** Ends all items; those that are not whole end so. */
  end(end: ItemEnd): ItemEvent[] {
    return this.#advance(end);
  }

  #advance(end: ItemEnd | null): ItemEvent[] {
    const events: ItemEvent[] = [];
    for (;;) {
      const queued = this.#queued[this.#head];
      if (queued === undefined) return events;
      const { item, waiting } = queued;
      if (!this.#open) {
        events.push(...item.open(), ...waiting.splice(0));
        this.#open = true;
      }
      const isLast = this.#head === this.#queued.length - 1;
      if (end === null && (isLast || !item.whole)) return events;
      events.push(...item.close(isLast || !item.whole ? end ?? "completed" : "completed"));
      this.#head++;
      this.#open = false;
    }
  }
}
