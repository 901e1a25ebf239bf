import type { Client } from "@modelcontextprotocol/client";
import type { Clock, Timer } from "../core/clock.ts";
import { HubError } from "../core/error.ts";
import type { JsonObject } from "../core/json.ts";
import { statusOf } from "./failure.ts";
import { ACCEPT_ALL } from "./read_pages.ts";

/** What hearing of changes touches. */
export interface ResourceUpdatesOptions {
  clock: Clock;
  timeoutMs: number;
  /** Called when the server refused something in a way that says that it has forgotten the session. */
  onStale(client: Client): void;
  /** Called when it did not take a subscription again that it had taken. */
  onFailure(error: unknown): void;
}

/** A resource that somebody follows. */
export interface Followed {
  /** Resolves once the server has taken the subscription; rejects when it does not take it. */
  ready: Promise<void>;
  /** Follows it no more. */
  release(): void;
}

/** The server's side of subscriptions that hold now. */
interface Held {
  client: Client;
  uris: Set<string>;
  /** Of the newest revision: the stream that all updates come over. */
  stream: { close(): Promise<void> } | null;
}

/** Updates of one resource within this time are told once. */
const COALESCE_MS = 100;
const PROBE_MS = 60_000;
/** A stream that the server has ended is asked for again after this. */
const AGAIN_MS = 5000;
const MAX_URI_CHARS = 2048;

/**
 * Subscriptions to the resources of one server: one at the server for each URI, however many follow it, and anew with each
 * connection. Up to 2025-11-25 by `resources/subscribe`, since then by one `subscriptions/listen` for all of them.
 */
export class ResourceUpdates {
  readonly #options: ResourceUpdatesOptions;
  readonly #followers = new Map<string, Set<() => void>>();
  /** Of what is followed, what is to be told. */
  readonly #updated = new Set<string>();
  #held: Held | null = null;
  #settling: Promise<Map<string, unknown>> = Promise.resolve(new Map());
  #tellTimer: Timer | null = null;
  #probeTimer: Timer | null = null;
  #againTimer: Timer | null = null;
  #closed = false;

  constructor(options: ResourceUpdatesOptions) {
    this.#options = options;
  }

  /** Whether anybody follows anything. */
  get any(): boolean {
    return this.#followers.size > 0;
  }

  /** There is a connection now; null when there is none any more. */
  use(client: Client | null): void {
    this.#held = client === null ? null : { client, uris: new Set(), stream: null };
    if (client === null || !tells(client)) return;
    client.setNotificationHandler(
      "notifications/resources/updated",
      ({ params: { uri } }) => this.#note(uri),
    );
    if (this.any) void this.#renew();
  }

  /** Follows a resource, and what lies below it; without a connection from the next one on. */
  follow(uri: string, listener: () => void): Followed {
    if (this.#closed) return { ready: Promise.resolve(), release() {} };
    const followers = this.#followers.get(uri) ?? new Set();
    const own = () => listener();
    followers.add(own);
    this.#followers.set(uri, followers);
    this.#probeTimer ??= this.#options.clock.setTimer(this.#probe, PROBE_MS);
    const release = () => {
      if (!followers.delete(own) || followers.size > 0) return;
      if (this.#followers.get(uri) === followers) {
        this.#followers.delete(uri);
        this.#updated.delete(uri);
      }
      void this.#settle();
    };
    return { ready: this.#taken(uri), release };
  }

  /** Tells nothing more. */
  close(): void {
    const { clock } = this.#options;
    this.#closed = true;
    for (const timer of [this.#tellTimer, this.#probeTimer, this.#againTimer]) {
      clock.clearTimer(timer);
    }
    this.#followers.clear();
    this.#held = null;
  }

  async #taken(uri: string): Promise<void> {
    if (this.#held === null) return;
    const refused = await this.#settle();
    const { client } = this.#held ?? {};
    if (client !== undefined && !tells(client)) {
      throw new HubError("invalid_request", "The MCP server has no subscriptions to resources");
    }
    if (refused.has(uri)) throw refused.get(uri);
  }

  /** Makes the server's subscriptions those that are followed, one pass after the other; gives what it refused. */
  #settle(): Promise<Map<string, unknown>> {
    this.#settling = this.#settling.then(() => this.#pass());
    return this.#settling;
  }

  /** Nobody waits for this one: what the server refuses is told. */
  async #renew(): Promise<void> {
    for (const error of (await this.#settle()).values()) this.#options.onFailure(error);
  }

  async #pass(): Promise<Map<string, unknown>> {
    const refused = new Map<string, unknown>();
    const held = this.#held;
    if (held === null || !tells(held.client)) return refused;
    const fresh = [...this.#followers.keys()].filter((uri) => !held.uris.has(uri));
    const old = [...held.uris].filter((uri) => !this.#followers.has(uri));
    if (fresh.length === 0 && old.length === 0) return refused;
    if (held.client.getProtocolEra() === "modern") await this.#listen(held, refused);
    else await this.#subscribe(held, { fresh, old, refused });
    return refused;
  }

  async #subscribe(
    held: Held,
    { fresh, old, refused }: {
      fresh: readonly string[];
      old: readonly string[];
      refused: Map<string, unknown>;
    },
  ): Promise<void> {
    const begun = fresh.map((uri) =>
      this.#ask(held.client, "resources/subscribe", { uri }).then(
        () => void held.uris.add(uri),
        (error: unknown) => void refused.set(uri, error),
      )
    );
    const ended = old.map((uri) => {
      held.uris.delete(uri);
      return this.#ask(held.client, "resources/unsubscribe", { uri }).catch(() => {});
    });
    await Promise.all([...begun, ...ended]);
  }

  /** Past the calls that are under way: what the server asks or says meanwhile has nothing to do with it. */
  async #ask(client: Client, method: string, params: JsonObject): Promise<void> {
    const { timeoutMs: timeout, onStale } = this.#options;
    try {
      await client.request({ method, params }, ACCEPT_ALL, { timeout });
    } catch (error) {
      const status = statusOf(error);
      if (status === 404 || status === 400 || status === 401) onStale(client);
      throw error;
    }
  }

  /** The new stream stands before the old one ends, so that nothing is missed between them. */
  async #listen(held: Held, refused: Map<string, unknown>): Promise<void> {
    const { clock, timeoutMs } = this.#options;
    const wanted = [...this.#followers.keys()];
    const before = held.stream;
    try {
      if (wanted.length === 0) {
        held.stream = null;
        held.uris.clear();
      } else {
        const filter = { resourceSubscriptions: wanted };
        const stream = await held.client.listen(filter, { timeout: timeoutMs });
        const taken = stream.honoredFilter.resourceSubscriptions ?? [];
        held.stream = stream;
        held.uris = new Set(taken);
        for (const uri of wanted) {
          if (held.uris.has(uri)) continue;
          refused.set(uri, new HubError("invalid_request", "The MCP server refused to tell of it"));
        }
        void stream.closed.then(() => {
          if (this.#held !== held || held.stream !== stream) return;
          held.stream = null;
          held.uris.clear();
          if (this.any) this.#againTimer = clock.setTimer(() => void this.#renew(), AGAIN_MS);
        });
      }
      await before?.close();
    } catch (error) {
      for (const uri of wanted) if (!held.uris.has(uri)) refused.set(uri, error);
    }
  }

  /** The server may name a part of what is followed: whoever follows the whole is told of that. */
  #note(uri: string): void {
    const isAllTold = this.#updated.size === this.#followers.size;
    if (uri.length > MAX_URI_CHARS || isAllTold) return;
    if (this.#followers.has(uri)) this.#updated.add(uri);
    for (let end = uri.lastIndexOf("/"); end > 0; end = uri.lastIndexOf("/", end - 1)) {
      for (const whole of [uri.slice(0, end), uri.slice(0, end + 1)]) {
        if (this.#followers.has(whole)) this.#updated.add(whole);
      }
    }
    if (this.#updated.size === 0) return;
    this.#tellTimer ??= this.#options.clock.setTimer(this.#tell, COALESCE_MS);
  }

  readonly #tell = () => {
    this.#tellTimer = null;
    const updated = [...this.#updated];
    this.#updated.clear();
    for (const uri of updated) for (const listener of this.#followers.get(uri) ?? []) listener();
  };

  /** A server that has forgotten the session says nothing of it by itself; what it refused is tried again. */
  readonly #probe = () => {
    this.#probeTimer = null;
    if (!this.any) return;
    void this.#settle();
    const client = this.#held?.client;
    if (client?.getProtocolEra() === "legacy") this.#ask(client, "ping", {}).catch(() => {});
    this.#probeTimer = this.#options.clock.setTimer(this.#probe, PROBE_MS);
  };
}

/** Whether the server says that it tells of changes to single resources. */
function tells(client: Client): boolean {
  return client.getServerCapabilities()?.resources?.subscribe === true;
}
