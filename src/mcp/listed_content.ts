import type { Client } from "@modelcontextprotocol/client";
import type { Clock } from "../core/clock.ts";
import { connectDeadline } from "./connect_deadline.ts";
import { ListRefresh } from "./list_refresh.ts";
import { type McpContent, NO_CONTENT, readContent } from "./read_content.ts";
import { ResourceUpdates } from "./resource_updates.ts";

/** All pages together may take this many times as long as one. */
const READING_TIMES = 4;

/** What knowing a server's content touches. */
export interface ListedContentOptions {
  clock: Clock;
  timeoutMs: number;
  /** What it listed before this process began; null where that is not known. */
  seed: McpContent | null;
  /** Called when another list counts. */
  onChange(): void;
  onFailure(error: unknown): void;
  /** Called when the server has forgotten the session. */
  onStale(client: Client): void;
}

/**
 * What one server lists beside tools, read behind its connects: one that is slow to say it costs its tools nothing. A
 * reading that fails leaves the old lists.
 */
export class ListedContent {
  /** Of whoever wants to hear of changes to its resources. */
  readonly updates: ResourceUpdates;
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
    this.updates = new ResourceUpdates(options);
  }

  /** Null before the first. */
  get listing(): McpContent | null {
    return this.#listing;
  }

  /** There is a connection now; null when there is none any more. */
  use(client: Client | null): void {
    this.#client = client;
    this.updates.use(client);
    if (client === null) return;
    const { resources, prompts } = client.getServerCapabilities() ?? {};
    if (resources === undefined && prompts === undefined) this.#take(NO_CONTENT);
    else void this.#begin();
  }

  /** Reads the lists again at once, where the server has any. */
  async refresh(): Promise<void> {
    const { resources, prompts } = this.#client?.getServerCapabilities() ?? {};
    if (resources !== undefined || prompts !== undefined) await this.#refresh.now();
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
    this.updates.use(null);
    this.#listing = null;
  }

  /** Reads no more. */
  async close(): Promise<void> {
    this.#ended.abort();
    this.updates.close();
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
    const { signal: ended } = this.#ended;
    if (client === null || ended.aborted) return;
    const { clock, timeoutMs, onFailure } = this.#options;
    const deadline = connectDeadline(clock, { ms: READING_TIMES * timeoutMs, ended });
    try {
      const read = await readContent(client, { signal: deadline.signal, timeoutMs });
      if (this.#client === client) this.#take(read);
    } catch (error) {
      if (this.#client === client && !ended.aborted) onFailure(error);
    } finally {
      deadline.clear();
    }
  }

  #take(read: McpContent): void {
    const isAnother = JSON.stringify(read) !== JSON.stringify(this.#listing ?? NO_CONTENT);
    this.#listing = read;
    if (isAnother) this.#options.onChange();
  }
}
