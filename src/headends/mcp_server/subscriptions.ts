import { HubError } from "../../core/error.ts";
import type { McpConnection } from "../../mcp/connection.ts";
import type { CallersContent, ContentCaller } from "../../policy/callers_content.ts";
import { findOwner, type Served, servedTo } from "./resource_owner.ts";
import type { Caller } from "./served_tool.ts";

/** What following resources needs. */
export interface SubscriptionsOptions {
  content: CallersContent;
  maxPerClient?: number;
  maxPerKey?: number;
  maxTotal?: number;
}

const MAX_PER_CLIENT = 100;
const MAX_PER_KEY = 1000;
const MAX_TOTAL = 10_000;
const MAX_URI_CHARS = 2048;

/** What all clients of this replica follow, bounded for each of them, for each key and in all. */
export class Subscriptions {
  readonly #options: Required<SubscriptionsOptions>;
  readonly #clients = new Set<ClientSubscriptions>();
  readonly #byKey = new Map<string, number>();
  #open = 0;

  constructor(options: SubscriptionsOptions) {
    this.#options = {
      maxPerClient: MAX_PER_CLIENT,
      maxPerKey: MAX_PER_KEY,
      maxTotal: MAX_TOTAL,
      ...options,
    };
  }

  /** How many there are. */
  get size(): number {
    return this.#open;
  }

  /** Those of one more client, to be closed with it; `tell` is called with the URI of a resource that has changed. */
  begin(caller: Caller, tell: (uri: string) => void): ClientSubscriptions {
    const { keyId } = caller.principal;
    const client = new ClientSubscriptions(caller, {
      content: this.#options.content,
      tell,
      enter: (held) => this.#enter(keyId, held),
      leave: () => this.#leave(keyId),
      onClose: () => void this.#clients.delete(client),
    });
    this.#clients.add(client);
    return client;
  }

  /** Servers, or what keys may use of them, may be others: each subscription goes to the connection that counts now, or ends. */
  recheck(): void {
    for (const client of this.#clients) client.recheck();
  }

  #enter(keyId: string, held: number): void {
    const { maxPerClient, maxPerKey, maxTotal } = this.#options;
    const ofKey = this.#byKey.get(keyId) ?? 0;
    if (held >= maxPerClient || ofKey >= maxPerKey) {
      const [most, whose] = held >= maxPerClient
        ? [maxPerClient, "this client"]
        : [maxPerKey, "this key"];
      throw new HubError(
        "invalid_request",
        `There are ${most} subscriptions of ${whose} already, as many as it may have`,
      );
    }
    if (this.#open >= maxTotal) {
      throw new HubError("overloaded", `The hub has ${maxTotal} subscriptions already`);
    }
    this.#open++;
    this.#byKey.set(keyId, ofKey + 1);
  }

  #leave(keyId: string): void {
    this.#open--;
    const left = (this.#byKey.get(keyId) ?? 0) - 1;
    if (left > 0) this.#byKey.set(keyId, left);
    else this.#byKey.delete(keyId);
  }
}

interface ClientOptions extends Pick<SubscriptionsOptions, "content"> {
  tell(uri: string): void;
  /** Counts one more; throws when there is no room. */
  enter(held: number): void;
  leave(): void;
  onClose(): void;
}

type Owner = NonNullable<ReturnType<typeof findOwner>>;

interface Subscription {
  connection: McpConnection;
  release(): void;
}

/** One of a client; `own` is null while the server is asked. */
interface Place {
  own: Subscription | null;
}

/** The resources that one client follows, by the URIs that it knows. */
export class ClientSubscriptions {
  readonly #options: ClientOptions;
  readonly #caller: ContentCaller;
  readonly #ended = new AbortController();
  readonly #held = new Map<string, Place>();
  /** While it is looked at what the client may use: for all that it asks for meanwhile. */
  #looking: Promise<Served[]> | null = null;
  #checking: Promise<void> = Promise.resolve();
  #isDue = false;

  constructor({ principal: { tenantId, keyId } }: Caller, options: ClientOptions) {
    this.#options = options;
    this.#caller = { tenantId, keyId, signal: this.#ended.signal };
  }

  /** Follows a resource. Throws `not_found` for one that the client may not read, and what its server says against it. */
  async add(uri: string): Promise<void> {
    const { enter } = this.#options;
    if (this.#held.has(uri)) return;
    if (uri.length > MAX_URI_CHARS) {
      throw new HubError("invalid_request", `A URI has at most ${MAX_URI_CHARS} characters`);
    }
    this.#caller.signal.throwIfAborted();
    enter(this.#held.size);
    const place: Place = { own: null };
    this.#held.set(uri, place);
    try {
      const own = await this.#follow(uri);
      if (this.#held.get(uri) === place && !this.#ended.signal.aborted) place.own = own;
      else own.release();
    } catch (error) {
      if (this.#held.get(uri) === place) this.remove(uri);
      throw error;
    }
  }

  /** Follows it no more. */
  remove(uri: string): void {
    const place = this.#held.get(uri);
    if (place === undefined) return;
    this.#held.delete(uri);
    this.#options.leave();
    place.own?.release();
  }

  /** Looks once more at each of them, one look after the other. */
  recheck(): void {
    if (this.#isDue || this.#held.size === 0) return;
    this.#isDue = true;
    this.#checking = this.#checking.then(() => this.#check());
  }

  /** Ends all of them. */
  close(): void {
    if (this.#ended.signal.aborted) return;
    this.#ended.abort(new Error("The client has left"));
    for (const uri of [...this.#held.keys()]) this.remove(uri);
    this.#options.onClose();
  }

  async #follow(uri: string): Promise<Subscription> {
    this.#looking ??= servedTo(this.#options.content, this.#caller)
      .finally(() => this.#looking = null);
    const owner = findOwner(await this.#looking, uri);
    if (owner === null) {
      throw new HubError("not_found", `There is no resource ${JSON.stringify(uri.slice(0, 200))}`);
    }
    return await this.#followAt(uri, owner);
  }

  async #followAt(uri: string, { connection, own }: Owner): Promise<Subscription> {
    const { content, tell } = this.#options;
    const onUpdate = () => {
      if (content.mayRead(this.#caller, connection, own)) tell(uri);
    };
    const release = await content.follow(this.#caller, connection, { uri: own, onUpdate });
    return { connection, release };
  }

  async #check(): Promise<void> {
    this.#isDue = false;
    const { content } = this.#options;
    const served = await servedTo(content, this.#caller).catch(() => null);
    if (served === null) return;
    for (const [uri, place] of [...this.#held]) {
      if (place.own === null || this.#ended.signal.aborted) continue;
      const owner = findOwner(served, uri);
      if (owner === null || !content.mayRead(this.#caller, owner.connection, owner.own)) {
        this.remove(uri);
      } else if (owner.connection !== place.own.connection) {
        await this.#move(uri, place, owner).catch(() => {/* the next look tries it again */});
      }
    }
  }

  /** Whatever has changed between the two is told at once: nobody knows. */
  async #move(uri: string, place: Place, owner: Owner): Promise<void> {
    const own = await this.#followAt(uri, owner);
    if (this.#held.get(uri) !== place) return own.release();
    place.own?.release();
    place.own = own;
    this.#options.tell(uri);
  }
}
