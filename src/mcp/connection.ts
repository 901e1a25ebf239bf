import type { LoadedMcpServer } from "../config/complete_mcp_servers.ts";
import type { Json } from "../core/json.ts";
import { askServer } from "./ask_server.ts";
import { CallsUnderWay } from "./calls_under_way.ts";
import type { Catalogue, Pins } from "./catalogue.ts";
import { connectAndList } from "./connect_and_list.ts";
import type { ConnectionOptions } from "./connection_options.ts";
import {
  type ConnectionState,
  type McpCall,
  type McpRequest,
  refusalOf,
  stateAfter,
} from "./connection_state.ts";
import { describeFailure, unavailable } from "./failure.ts";
import type { ListedContent } from "./listed_content.ts";
import type { OfferedTools } from "./offered_tools.ts";
import type { OpenedClient } from "./open_client.ts";
import type { ToolListing } from "./read_tools.ts";
import { Retries } from "./retries.ts";
import { ConnectionSecrets } from "./secrets/connection_secrets.ts";
import { ServerLists } from "./server_lists.ts";

/** Calls under way get this long to end when the server is not configured so any more. */
const RETIRE_MS = 30_000;

/** The one connection to a server: opened when it is needed, opened again when it is lost, and what it lists. */
export class McpConnection {
  readonly name: string;
  readonly server: LoadedMcpServer;
  /** Whether a caller handed over what it is let in with. */
  readonly isHanded: boolean;
  readonly #options: ConnectionOptions;
  readonly #secrets = new ConnectionSecrets();
  readonly #ended = new AbortController();
  #state: ConnectionState;
  #opened: OpenedClient | null = null;
  #attempt: Promise<OpenedClient> | null = null;
  #retired: Error | null = null;
  readonly #calls = new CallsUnderWay();
  readonly #retries: Retries;
  readonly #lists: ServerLists;

  constructor(name: string, server: LoadedMcpServer, options: ConnectionOptions) {
    this.name = name;
    this.server = server;
    this.#options = options;
    this.isHanded = options.handed !== undefined;
    this.#state = { kind: server.enabled ? "idle" : "disabled" };
    const { clock, random } = options;
    this.#retries = new Retries({ clock, random, connect: () => this.connect() });
    this.#lists = new ServerLists({
      ...options,
      name,
      server,
      signal: this.#ended.signal,
      opened: () => this.#opened,
      describe: (error) => this.#describe(error),
      onStale: (client) => this.#forgotten(client),
    });
  }

  get state(): ConnectionState {
    return this.#state;
  }

  /** The last list that came; null before the first. */
  get listing(): ToolListing | null {
    return this.offered.listing;
  }

  /** Its tools, of which some count. */
  get offered(): OfferedTools {
    return this.#lists.tools;
  }

  /** What it has beside tools. */
  get content(): ListedContent {
    return this.#lists.content;
  }

  /** How the server wants its tools to be used; its own words, bounded and cleaned. */
  get instructions(): string {
    return this.#lists.instructions;
  }

  /** The last of what the server wrote to stderr. */
  get stderr(): string {
    return this.#opened?.stderr() ?? "";
  }

  /** What is known of it, for a connection that begins with it. */
  get catalogue(): Catalogue {
    return this.#lists.catalogue;
  }

  /** What it is let in with has changed: unless it is open, the next call tries at once. */
  renew(): void {
    if (this.#opened !== null || this.#attempt !== null) return;
    this.#retries.stop();
    this.#state = { kind: "idle" };
  }

  /** Lets these definitions count. */
  usePins(pins: Pins): void {
    this.#lists.usePins(pins);
  }

  /** Lets these definitions count and no others. */
  setPins(pins: Pins): void {
    this.#lists.setPins(pins);
  }

  /** Nobody has authorized the hub any more: what was listed until now is nobody's. */
  async forget(): Promise<void> {
    if (this.#state.kind === "disabled") return;
    this.#forget();
    if (await this.#attempt?.then(() => true, () => false)) this.#forget();
  }

  /** Connects unless it is connected. Resolves when that has succeeded or failed; never rejects. */
  async connect(): Promise<void> {
    if (this.#state.kind === "disabled" || this.#retired !== null) return;
    await this.#connect().catch(() => {});
  }

  /**
   * Reads what the server lists again, whether or not it says that anything has changed; connects where it is not
   * connected. Gives why that failed, for operators, or null.
   */
  async refresh(): Promise<string | null> {
    if (this.#state.kind === "disabled") return "it is disabled";
    if (this.#retired !== null) return this.#retired.message;
    const isOpen = this.#opened !== null;
    await this.connect();
    if (this.#opened === null) {
      return "reason" in this.#state ? this.#state.reason : this.#state.kind;
    }
    // A connect has read the tools, and what is beside them is being read.
    return isOpen ? await this.#lists.refresh() : await this.content.settled().then(() => null);
  }

  /** Calls a tool. Rejects with what the model may read. */
  async call({ tool, input, ...rest }: McpCall): Promise<Json> {
    const what = `The tool ${tool}`;
    const asked = { method: "tools/call", params: { name: tool, arguments: input }, what, ...rest };
    return await this.#ask(asked, () => this.offered.assertOffered(tool));
  }

  /** Asks for something else than a call. Rejects with what the caller may read. */
  request(asked: McpRequest): Promise<Json> {
    return this.#ask(asked, () => {});
  }

  async #ask(asked: McpRequest, check: () => void): Promise<Json> {
    this.#calls.begin();
    try {
      return await askServer(asked, {
        name: this.name,
        clock: this.#options.clock,
        idleMs: this.server.timeoutMs,
        ready: () => this.#ready(),
        check,
        onStale: (opened) => this.#drop(opened),
        onUnauthorized: (opened, error) => {
          this.#drop(opened);
          this.#state = { kind: "needs_auth", reason: this.#describe(error) };
        },
      });
    } catch (error) {
      if (asked.signal.aborted) throw error;
      const clean = this.#secrets.scrubError(error);
      throw this.#options.handed?.clean(clean) ?? clean;
    } finally {
      this.#calls.end();
    }
  }

  /** Ends the connection until it is needed again; false when it is in use. */
  rest(): boolean {
    if (this.#calls.any || this.#attempt !== null || this.content.updates.any) return false;
    if (this.#opened !== null) this.#drop(this.#opened);
    return true;
  }

  /** Takes no more calls, waits for those under way, and ends. Never rejects. */
  async retire(reason: string): Promise<void> {
    this.#retired ??= unavailable(this.name, { reason, cause: undefined });
    await this.#calls.none(this.#options.clock, RETIRE_MS);
    await this.close();
  }

  /** Ends the connection and a server that was started for it. Never rejects. */
  async close(): Promise<void> {
    this.#retries.stop();
    this.#ended.abort(new Error("The hub is stopping"));
    await this.#attempt?.catch(() => {});
    await this.#opened?.close();
    await this.#lists.close();
    this.#opened = null;
  }

  #ready(): Promise<OpenedClient> {
    if (this.#retired !== null) return Promise.reject(this.#retired);
    if (this.#opened !== null) return Promise.resolve(this.#opened);
    const refusal = refusalOf(this.name, this.#state, this.#options.clock.monotonic());
    return refusal === null ? this.#connect() : Promise.reject(refusal);
  }

  #connect(): Promise<OpenedClient> {
    if (this.#opened !== null) return Promise.resolve(this.#opened);
    this.#attempt ??= this.#open().finally(() => {
      this.#attempt = null;
    });
    return this.#attempt;
  }

  async #open(): Promise<OpenedClient> {
    const { log } = this.#options;
    this.#retries.stop();
    this.#state = { kind: "connecting" };
    try {
      const { opened, listing } = await connectAndList(this.server, {
        ...this.#options,
        secrets: this.#secrets,
        signal: this.#ended.signal,
        onToolsChanged: () => this.#lists.toolsChanged(),
        onContentChanged: () => this.content.changed(),
        onLost: (lost) => this.#lost(lost),
      });
      this.#opened = opened;
      this.#retries.ready();
      this.#state = { kind: "ready" };
      log.info("An MCP server is connected", {
        server: this.name,
        transport: opened.transport,
        protocol: opened.client.getNegotiatedProtocolVersion(),
        tools: listing.tools.length,
      });
      this.#lists.use(opened, listing);
      return opened;
    } catch (error) {
      this.#fail(error);
      throw unavailable(this.name, { reason: this.#describe(error), cause: error });
    }
  }

  #forget(): void {
    if (this.#opened !== null) this.#drop(this.#opened);
    if (this.#attempt === null) {
      this.#retries.stop();
      this.#state = { kind: "needs_auth", reason: "what was authorized was forgotten" };
    }
    this.#lists.forget();
  }

  /** The session is over: the next call opens another one. */
  #drop(opened: OpenedClient): void {
    if (this.#opened !== opened) return;
    this.#opened = null;
    this.content.use(null);
    this.#state = { kind: "idle" };
    void opened.close();
  }

  /** A server that is followed has forgotten the session: it is opened anew at once. */
  #forgotten(client: OpenedClient["client"]): void {
    const opened = this.#opened;
    if (opened?.client !== client || !opened.hasSession()) return;
    this.#drop(opened);
    void this.connect();
  }

  #lost(opened: OpenedClient): void {
    if (this.#opened !== opened) return;
    this.#opened = null;
    this.content.use(null);
    void opened.close();
    this.#retries.lost();
    this.#fail(new Error(opened.ending() ?? "the connection ended"));
  }

  #fail(error: unknown): void {
    const { log } = this.#options;
    if (this.#ended.signal.aborted) {
      this.#state = { kind: "idle" };
      return;
    }
    const reason = this.#describe(error);
    this.#state = stateAfter(error, reason) ?? this.#retries.arm(reason);
    const { kind } = this.#state;
    log.warn("An MCP server is not available", { server: this.name, state: kind, reason });
  }

  #describe(error: unknown): string {
    const text = this.#secrets.scrub(describeFailure(error));
    return this.#options.handed?.scrub(text) ?? text;
  }
}
