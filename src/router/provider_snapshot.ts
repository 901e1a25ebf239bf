import type { LoadedProvider } from "../config/complete_providers.ts";
import { readStoredProvider } from "../config/stored_provider.ts";
import type { Clock } from "../core/clock.ts";
import { HubError, toHubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import { Refresher } from "../core/refresher.ts";
import type { KeyRotation } from "../providers/create_targets.ts";
import { openSecrets, proveClientKey, settingsOf } from "../store/client_secrets.ts";
import { listClients, type StoredClient } from "../store/clients.ts";
import type { Database } from "../store/database.ts";
import type { MasterKey } from "../store/master_key.ts";

/** What keeping the database's providers in memory needs. */
export interface ProviderSnapshotsOptions {
  db: Database;
  key: MasterKey;
  tenantId: string;
  clock: Clock;
  log: Log;
  refreshMs: number;
  addSecret(secret: string): void;
}

/** A provider of the database that can be called. */
export interface KeptProvider {
  clientId: string;
  provider: LoadedProvider;
  /** There while it has a key from before beside its own. */
  rotation: KeyRotation | null;
}

/**
 * Keeps the database's providers in memory, so that no request waits for it; looks again every few seconds, and when
 * told so. One that cannot be read goes on as it was when it could be.
 */
export class ProviderSnapshots {
  readonly #options: ProviderSnapshotsOptions;
  readonly #refresher: Refresher;
  #current: ReadonlyMap<string, KeptProvider> = new Map();
  #changed: () => void = () => {};
  #seen: string | null = null;
  #asked = 0;
  #answered = 0;

  constructor(options: ProviderSnapshotsOptions) {
    this.#options = options;
    const { clock, log, refreshMs } = options;
    this.#refresher = new Refresher({
      clock,
      everyMs: refreshMs,
      refresh: () => this.refresh(),
      onError(error) {
        log.warn("Providers of the database were not refreshed: the last ones stay", {
          error: toHubError(error),
        });
      },
    });
  }

  /** By name. */
  get current(): ReadonlyMap<string, KeptProvider> {
    return this.#current;
  }

  /** Called from now on when any of them has changed. */
  onChange(changed: () => void): void {
    this.#changed = changed;
  }

  /** Reads all of them now. Throws when Postgres is away. */
  async refresh(): Promise<void> {
    const turn = ++this.#asked;
    const { db, tenantId, log } = this.#options;
    const clients = await listClients(db, { tenantId });
    // An answer that was overtaken must not bring a key back.
    if (turn < this.#answered) return;
    this.#answered = turn;
    const seen = JSON.stringify(clients, bytesAsText);
    if (this.#seen === seen) return;
    const next = new Map<string, KeptProvider>();
    for (const client of clients) {
      const read = await this.#read(client).catch((error) => {
        const before = this.#current.get(client.name);
        const kept = before?.clientId === client.clientId ? before : undefined;
        log.error(
          kept === undefined
            ? "A provider of the database cannot be used"
            : "A provider of the database was not reloaded: it goes on as it was",
          { provider: client.name, error: toHubError(error) },
        );
        return kept;
      });
      if (read !== undefined) next.set(client.name, read);
    }
    if (turn < this.#answered) return;
    const isFirst = this.#seen === null;
    this.#seen = seen;
    this.#current = next;
    this.#changed();
    if (!isFirst) {
      log.info("Providers of the database were reloaded", { providers: [...next.keys()] });
    }
  }

  /** Refreshes from now on, until `close`. */
  start(): void {
    this.#refresher.start();
  }

  /** A provider may have changed: looks now, and once more when told so meanwhile. Never throws. */
  check(): Promise<void> {
    return this.#refresher.check();
  }

  close(): void {
    this.#refresher.close();
  }

  async #read(client: StoredClient): Promise<KeptProvider> {
    const { key, addSecret } = this.#options;
    const { clientId, name } = client;
    const opened = await openSecrets(client, key);
    const settings = settingsOf(client, opened);
    const secrets = Object.values((settings["headers"] ?? {}) as Record<string, string>);
    for (const secret of [opened.api_key, opened.api_key_former, ...secrets]) {
      if (secret !== undefined) addSecret(secret);
    }
    const read = readStoredProvider(name, settings);
    if (!read.ok) throw new HubError("invalid_configuration", read.message);
    const { api_key: fresh, api_key_former: former } = opened;
    const rotation = fresh === undefined || former === undefined
      ? null
      : this.#rotationOf(client, former);
    return { clientId, provider: read.provider, rotation };
  }

  #rotationOf(client: StoredClient, former: string): KeyRotation {
    const { db, log } = this.#options;
    const { tenantId, clientId, name } = client;
    const sealed = new Map(client.secrets.map((secret) => [secret.field, secret]));
    const nonce = sealed.get("api_key")?.nonce ?? new Uint8Array();
    const isProven = sealed.get("api_key_former")?.expiresAt !== null;
    let proving = isProven;
    return {
      former,
      isProven,
      ids: ["api_key", "api_key_former"].map((field) =>
        sealed.get(field as "api_key")?.nonce.toHex() ?? ""
      ),
      onWorks: () => {
        if (proving) return;
        proving = true;
        proveClientKey(db, { tenantId, clientId, nonce }).then(
          (isNews) => {
            if (isNews) {
              log.info("A provider's new key works: the former one ends soon", { provider: name });
            }
            return this.check();
          },
          (error) => {
            proving = false;
            log.warn("That a provider's new key works was not stored", { provider: name, error });
          },
        );
      },
    };
  }
}

function bytesAsText(_: string, value: unknown): unknown {
  return value instanceof Uint8Array ? value.toHex() : value;
}
