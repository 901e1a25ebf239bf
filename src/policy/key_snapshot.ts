import type { Clock } from "../core/clock.ts";
import { toHubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import { Refresher } from "../core/refresher.ts";
import type { Principal } from "../core/tool.ts";
import type { Database } from "../store/database.ts";
import { listKeys, type StoredKey } from "../store/keys.ts";
import type { KeySnapshot } from "./authenticate.ts";
import { KeyEnds } from "./key_ends.ts";
import { FREE_POLICY, type KeyPolicy, NOTHING, readPolicy } from "./key_policy.ts";
import type { KeyRecord } from "./key_record.ts";

/** What became of keys. */
export interface KeyNews {
  /** Those that may use other agents or tools now. */
  changed: string[];
  /** Those that reach other sessions now, or may answer for others: connections that were opened before must not go on. */
  moved: string[];
  /** Those that hold no more: revoked, deleted or expired. */
  ended: string[];
}

/** Keeps all keys in memory, so that no request waits for the database; looks again every few seconds. */
export class KeySnapshots {
  readonly #options: { db: Database; clock: Clock; log: Log; refreshMs: number };
  readonly #refresher: Refresher;
  #current: KeySnapshot | null = null;
  #policies = new Map<string, KeyPolicy>();
  #stored: ReadonlyMap<string, StoredKey> = new Map();
  readonly #listeners: ((news: KeyNews) => void)[] = [];
  /** Which keys have ended, and the work that ends with them. */
  readonly ends: KeyEnds;
  #seen = "";
  #asked = 0;
  #answered = 0;

  constructor(options: { db: Database; clock: Clock; log: Log; refreshMs: number }) {
    this.#options = options;
    const { clock, log, refreshMs } = options;
    this.ends = new KeyEnds({
      clock,
      onEnded: (ended) => this.#tell({ changed: [], moved: [], ended }),
    });
    this.#refresher = new Refresher({
      clock,
      everyMs: refreshMs,
      refresh: () => this.refresh(),
      onError: (error) => log.warn("API keys were not refreshed", { error: toHubError(error) }),
    });
  }

  /** The newest snapshot; null before the first `refresh`. */
  get current(): KeySnapshot | null {
    return this.#current;
  }

  /** Reads all keys now; the snapshot changes only when a key did. Throws when Postgres is away. */
  async refresh(): Promise<void> {
    const turn = ++this.#asked;
    const keys = await listKeys(this.#options.db);
    // An answer that was overtaken must not bring a revoked key back.
    if (turn < this.#answered) return;
    this.#answered = turn;
    const seen = keys.map((key) => JSON.stringify(key, bytesAsText)).sort().join();
    if (this.#current !== null && seen === this.#seen) return this.ends.look();
    this.#seen = seen;
    const before = { stored: this.#stored, policies: this.#policies };
    this.#stored = new Map(keys.map((key) => [key.keyId, key]));
    this.#policies = new Map(keys.map((key) => [key.keyId, this.#read(key)]));
    const records = keys.flatMap((key) => recordsOf(key, this.policyOf(key.keyId)));
    this.#current = { byLookupId: new Map(records.map((record) => [record.lookupId, record])) };
    this.#tell(this.#newsSince(before));
    this.ends.update(keys);
  }

  /** Called from now on when what keys may use, or whether they hold, is another. */
  onChange(listener: (news: KeyNews) => void): void {
    this.#listeners.push(listener);
  }

  /** What a key may do, as far as is known here; a key that nobody has heard of has no limits. */
  policyOf(keyId: string): KeyPolicy {
    return this.#policies.get(keyId) ?? FREE_POLICY;
  }

  /** Whoever has a key, for work that goes on without a request; looks once more for one that is not known. Throws when Postgres is away. */
  async findKey(
    { tenantId, keyId }: { tenantId: string; keyId: string },
  ): Promise<Principal | null> {
    if (!this.#stored.has(keyId)) await this.refresh();
    const key = this.#stored.get(keyId);
    if (key === undefined || key.tenantId !== tenantId) return null;
    const { name: keyName, role, tags, owner } = key;
    const { sessions, answers } = this.policyOf(keyId);
    return {
      ...{ tenantId, keyId, keyName, role },
      ...tags.length === 0 ? {} : { tags },
      ...owner === null ? {} : { owner },
      ...sessions === undefined ? {} : { sessions },
      ...answers === undefined ? {} : { answers },
    };
  }

  /** Whether a key opens the hub, by a snapshot of now. */
  async isValid({ tenantId, keyId }: { tenantId: string; keyId: string }): Promise<boolean> {
    await this.refresh();
    return this.#stored.get(keyId)?.tenantId === tenantId && this.ends.endOf(keyId) === null;
  }

  /** Takes in a key that was found in the database before a snapshot had it; gives its record under this lookup id. */
  learn(key: StoredKey | null, lookupId: string): KeyRecord | null {
    if (key === null) return null;
    if (!this.#policies.has(key.keyId)) this.#policies.set(key.keyId, this.#read(key));
    return recordsOf(key, this.policyOf(key.keyId)).find((record) =>
      record.lookupId === lookupId
    ) ?? null;
  }

  /** Refreshes from now on, until `close`. */
  start(): void {
    this.#refresher.start();
    this.ends.start();
  }

  /** A key may have changed: looks now, and once more when told so meanwhile. Never throws. */
  check(): Promise<void> {
    return this.#refresher.check();
  }

  close(): void {
    this.#refresher.close();
    this.ends.close();
  }

  #newsSince({ stored, policies }: {
    stored: ReadonlyMap<string, StoredKey>;
    policies: ReadonlyMap<string, KeyPolicy>;
  }): KeyNews {
    const news: KeyNews = { changed: [], moved: [], ended: [] };
    for (const [keyId, former] of stored) {
      const key = this.#stored.get(keyId);
      if (usesOf(policies.get(keyId)) !== usesOf(this.#policies.get(keyId))) {
        news.changed.push(keyId);
      }
      const reach = reachOf(former, policies.get(keyId));
      if (key !== undefined && reach !== reachOf(key, this.#policies.get(keyId))) {
        news.moved.push(keyId);
      }
    }
    return news;
  }

  #tell(news: KeyNews): void {
    if (news.changed.length + news.moved.length + news.ended.length === 0) return;
    for (const listener of this.#listeners) listener(news);
  }

  /** A policy that this hub does not understand allows nothing: it may come from a newer one. */
  #read({ keyId, policy }: StoredKey): KeyPolicy {
    const read = readPolicy(policy);
    if (read === null) {
      this.#options.log.error("The policy of an API key is not understood: it may call nothing", {
        keyId,
      });
    }
    return read ?? NOTHING;
  }
}

/** What of a policy says which agents and tools may be used. */
function usesOf(policy: KeyPolicy | undefined): string {
  return JSON.stringify([policy?.agents ?? null, policy?.tools ?? null]);
}

/** What of a key says what it reaches. */
function reachOf({ owner }: StoredKey, policy: KeyPolicy | undefined): string {
  return JSON.stringify([owner, policy?.sessions ?? null, policy?.answers ?? null]);
}

/** A key under each of its tokens: the one from before its rotation holds until its grace is over. */
function recordsOf(key: StoredKey, { sessions, answers }: KeyPolicy): KeyRecord[] {
  const { keyId, tenantId, name, role, lookupId, hash, expiresAt, revokedAt, tags, former } = key;
  const { owner } = key;
  const reach = { ...sessions && { sessions }, ...answers && { answers } };
  const facts = { keyId, tenantId, name, role, tags, owner, ...reach };
  const record = { ...facts, lookupId, hash, expiresAt, revokedAt };
  if (former === null) return [record];
  const until = Math.min(expiresAt ?? former.until, former.until);
  return [record, { ...record, lookupId: former.lookupId, hash: former.hash, expiresAt: until }];
}

function bytesAsText(_: string, value: unknown): unknown {
  return value instanceof Uint8Array ? value.toHex() : value;
}
