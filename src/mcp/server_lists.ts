import type { Client } from "@modelcontextprotocol/client";
import type { LoadedMcpServer } from "../config/complete_mcp_servers.ts";
import type { Catalogue, Pins } from "./catalogue.ts";
import type { ConnectionOptions } from "./connection_options.ts";
import { ListRefresh } from "./list_refresh.ts";
import { ListedContent } from "./listed_content.ts";
import { OfferedTools, tellDropped } from "./offered_tools.ts";
import type { OpenedClient } from "./open_client.ts";
import { instructionsOf, readTools, type ToolListing } from "./read_tools.ts";

/** What knowing the lists of a server touches. */
export interface ServerListsOptions
  extends Pick<ConnectionOptions, "clock" | "log" | "seed" | "keep" | "onTools" | "onContent"> {
  name: string;
  server: LoadedMcpServer;
  /** Ends what is being read. */
  signal: AbortSignal;
  /** The connection that there is now. */
  opened(): OpenedClient | null;
  describe(error: unknown): string;
  /** Called when the server has forgotten the session of this client. */
  onStale(client: Client): void;
}

/** What one server lists: its tools, of which some count, how they are to be used, and what it has beside them. */
export class ServerLists {
  readonly tools: OfferedTools;
  /** What it has beside tools. */
  readonly content: ListedContent;
  readonly #options: ServerListsOptions;
  readonly #refresh: ListRefresh;
  #instructions: string;
  /** Why the last reading failed, in words for operators. */
  #failure: string | null = null;

  constructor(options: ServerListsOptions) {
    const { clock, server, seed, onStale } = options;
    this.#options = options;
    this.tools = new OfferedTools(server.trust, seed);
    this.#instructions = seed?.instructions ?? "";
    this.#refresh = new ListRefresh(clock, () => this.#readAgain());
    this.content = new ListedContent({
      clock,
      timeoutMs: server.connectTimeoutMs,
      seed: seed?.content ?? null,
      onChange: () => {
        options.keep?.(this.catalogue);
        options.onContent();
      },
      onFailure: (error) => this.#couldNot("resources and prompts", error),
      onStale,
    });
  }

  /** How the server wants its tools to be used; its own words, bounded and cleaned. */
  get instructions(): string {
    return this.#instructions;
  }

  /** What is known of it, for a connection that begins with it. */
  get catalogue(): Catalogue {
    const instructions = this.#instructions;
    return { ...this.tools.toCatalogue(), instructions, content: this.content.listing };
  }

  /** A connection stands, and this is what was listed over it. */
  use({ client }: OpenedClient, listing: ToolListing): void {
    this.#instructions = instructionsOf(client);
    this.content.use(client);
    this.#take(listing);
  }

  /** The server says that its tools have changed. */
  toolsChanged(): void {
    this.#refresh.changed();
  }

  /** Reads all lists again at once; gives why one could not be read, or null. The old list stays then. */
  async refresh(): Promise<string | null> {
    this.#failure = null;
    await Promise.all([this.#refresh.now(), this.content.refresh()]);
    return this.#failure;
  }

  /** Lets these definitions count. */
  usePins(pins: Pins): void {
    if (this.tools.usePins(pins)) this.#tell();
  }

  /** Lets these definitions count and no others. */
  setPins(pins: Pins): void {
    if (this.tools.setPins(pins)) this.#tell();
  }

  /** What was listed counts no more. */
  forget(): void {
    this.tools.forget();
    this.content.forget();
    this.#instructions = "";
    this.#tell();
    this.#options.onContent();
  }

  /** Reads no more. */
  async close(): Promise<void> {
    await Promise.all([this.#refresh.close(), this.content.close()]);
  }

  #take(listed: ToolListing): void {
    const { name: server, log } = this.#options;
    const { dropped } = this.tools.take(listed);
    tellDropped(dropped, { server, log });
    this.#tell();
  }

  #tell(): void {
    this.#options.keep?.(this.catalogue);
    this.#options.onTools();
  }

  async #readAgain(): Promise<void> {
    const { opened, signal, server: { connectTimeoutMs: timeoutMs } } = this.#options;
    const before = opened();
    if (before === null) return;
    try {
      const listing = await readTools(before.client, { signal, timeoutMs });
      if (opened() === before) this.#take(listing);
    } catch (error) {
      this.#couldNot("tools", error);
    }
  }

  #couldNot(what: string, error: unknown): void {
    const { name: server, log, describe } = this.#options;
    const reason = describe(error);
    this.#failure = `its ${what}: ${reason}`;
    log.warn("What an MCP server lists could not be read", { server, what, reason });
  }
}
