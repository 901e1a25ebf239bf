import type { AbortLike } from "../core/abort.ts";
import type { Clock } from "../core/clock.ts";
import type { CachedAnswer } from "../store/cached_answers.ts";
import { JoinedAsk } from "./joined_ask.ts";

export type { CachedAnswer };

/** An answer that is kept, with its age in seconds. */
export type FoundAnswer = CachedAnswer & { age: number };

/** What came of a question: an answer that was kept or asked for by another request, or one of a provider. */
export type Opened<A> = { found: FoundAnswer } | { answer: A };

/** How a question is answered. */
export interface HowToOpen<A> {
  /** Aborts when the client leaves. */
  signal: AbortLike;
  /** Looks for an answer that is kept; never rejects. */
  look(): Promise<FoundAnswer | null>;
  /** Asks a provider: for what its client gets, and what others may have of it. */
  ask(signal: AbortLike): Promise<{ answer: A; kept: CachedAnswer }>;
}

/** What joining needs. */
export interface JoinedAnswersOptions {
  clock: Clock;
  maxEntryBytes: number;
  /** The longest wait for an answer that another request has asked for; at 0 none is waited for. */
  joinTimeoutMs: number;
  observe(event: "hit" | "miss"): void;
}

/**
 * Whole answers for requests that ask the same at the same time: one of them looks and asks, the others wait for it. When
 * it fails, takes too long or comes to what is not kept, they ask for themselves.
 */
export class JoinedAnswers {
  readonly #options: JoinedAnswersOptions;
  /** By what is asked; null for an answer that others cannot have. */
  readonly #asked = new Map<string, JoinedAsk<FoundAnswer | null>>();

  constructor(options: JoinedAnswersOptions) {
    this.#options = options;
  }

  /** `hash` is of all that the answer depends on, and no answer may be older than `seconds`. */
  async open<A>(
    { hash, seconds }: { hash: Uint8Array; seconds: number },
    how: HowToOpen<A>,
  ): Promise<Opened<A>> {
    const place = `${hash.toHex()} ${seconds}`;
    const other = this.#asked.get(place);
    return other === undefined || this.#options.joinTimeoutMs === 0
      ? await this.#lead(place, how)
      : await this.#follow(other, how);
  }

  async #lead<A>(place: string, { signal, look, ask }: HowToOpen<A>): Promise<Opened<A>> {
    let opened: Opened<A> | null = null;
    const lead = async (signal: AbortLike) => {
      const found = await look();
      if (found !== null) {
        opened = { found };
        return found;
      }
      const { answer, kept } = await ask(signal);
      opened = { answer };
      return kept.bytes.length > this.#options.maxEntryBytes ? null : { ...kept, age: 0 };
    };
    const own: JoinedAsk<FoundAnswer | null> = new JoinedAsk(lead, () => {
      if (this.#asked.get(place) === own) this.#asked.delete(place);
    });
    this.#asked.set(place, own);
    await own.wait(signal);
    if (opened === null) throw new Error("An answer came that nobody has opened");
    return opened;
  }

  async #follow<A>(
    other: JoinedAsk<FoundAnswer | null>,
    { signal, ask }: HowToOpen<A>,
  ): Promise<Opened<A>> {
    const { clock, observe, joinTimeoutMs: limitMs } = this.#options;
    const found = await other.wait(signal, { clock, limitMs }).catch((error) => {
      if (signal.aborted) throw error;
      return null;
    });
    observe(found === null ? "miss" : "hit");
    return found === null ? { answer: (await ask(signal)).answer } : { found };
  }
}
