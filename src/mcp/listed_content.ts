import type { Client } from "@modelcontextprotocol/client";
import type { Clock } from "../core/clock.ts";
import { ListRefresh } from "./list_refresh.ts";
import { type McpContent, NO_CONTENT, readContent } from "./read_content.ts";

/** What knowing a server's content touches. */
export interface ListedContentOptions {
  clock: Clock;
  timeoutMs: number;
  /** What it listed before this process began; null where that is not known. */
  seed: McpContent | null;
  /** Called when another list counts. */
  onChange(): void;
  onFailure(error: unknown): void;
}

/**
 * What one server lists beside tools, read behind its connects: one that is slow to say it costs its tools nothing. A
 * reading that fails leaves the old lists.
 */
export class ListedContent {
  readonly #options: ListedContentOptions;
  readonly #refresh: ListRefresh;
  readonly #ended = new AbortController();
  #listing: McpContent | null;
  #client: Client | null = null;
  #reading: Promise<void> = Promise.resolve();

  constructor(options: ListedContentOptions) {
    this.#options = options;
    this.#listing = options.seed;
    this.#refresh = new ListRefresh(options.clock, () => this.#begin());
  }

  /** Null before the first. */
  get listing(): McpContent | null {
    return this.#listing;
  }

  /** There is a connection now; null when there is none any more. */
  use(client: Client | null): void {
    this.#client = client;
    if (client === null) return;
    const { resources, prompts } = client.getServerCapabilities() ?? {};
    if (resources === undefined && prompts === undefined) this.#take(NO_CONTENT);
    else void this.#begin();
  }

  /** The server says that a list has changed. */
  changed(): void {
    this.#refresh.changed();
  }

  /** Resolves when what is being read was read, or was not to be had. Never rejects. */
  async settled(): Promise<void> {
    await this.#reading;
  }

  /** What was listed counts no more. */
  forget(): void {
    this.#client = null;
    this.#listing = null;
  }

  /** Reads no more. */
  async close(): Promise<void> {
    this.#ended.abort();
    await this.#refresh.close();
    await this.#reading;
  }

  /** One after the other: the last list that came is the one that stays. */
  #begin(): Promise<void> {
    this.#reading = this.#reading.then(() => this.#read());
    return this.#reading;
  }

  async #read(): Promise<void> {
    const client = this.#client;
    const { signal } = this.#ended;
    if (client === null || signal.aborted) return;
    const { timeoutMs, onFailure } = this.#options;
    try {
      const read = await readContent(client, { signal, timeoutMs });
      if (this.#client === client) this.#take(read);
    } catch (error) {
      if (this.#client === client && !signal.aborted) onFailure(error);
    }
  }

  #take(read: McpContent): void {
    const isAnother = JSON.stringify(read) !== JSON.stringify(this.#listing ?? NO_CONTENT);
    this.#listing = read;
    if (isAnother) this.#options.onChange();
  }
}
