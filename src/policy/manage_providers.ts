import type { LoadedProvider } from "../config/complete_providers.ts";
import { readStoredProvider } from "../config/stored_provider.ts";
import { HubError } from "../core/error.ts";
import type { Id, IdSource } from "../core/id.ts";
import type { JsonObject } from "../core/json.ts";
import { type AuditEntry, writeAudit } from "../store/audit.ts";
import {
  openSecrets,
  resealClientSecrets,
  type SealedField,
  sealField,
  type SecretField,
  settingsOf,
} from "../store/client_secrets.ts";
import {
  changeClient,
  createClient,
  listClients,
  removeClient,
  rotateClientKey,
  type StoredClient,
} from "../store/clients.ts";
import { type Database, isUniqueViolation } from "../store/database.ts";
import type { MasterKey } from "../store/master_key.ts";
import { notify } from "../store/notify.ts";
import { resealMcp } from "../store/reseal_mcp.ts";
import { DEFAULT_TENANT_ID } from "../store/tenant.ts";
import type { KeyActor } from "./manage_keys.ts";
import type { Pepper } from "./pepper.ts";
import { type ShownProvider, showProvider } from "./shown_provider.ts";

/** What managing providers needs. */
export interface ProviderDeskOptions {
  db: Database;
  ids: IdSource;
  key: MasterKey;
  pepper: Pick<Pepper, "store">;
  /** Whether other replicas hear of changes at once, or find them with their next look. */
  notify: boolean;
  /** Called with each secret that is given, before anything else is done with it. */
  addSecret(secret: string): void;
  /** Called for this replica. */
  onChange?(): Promise<void>;
}

interface Secrets {
  apiKey: string | undefined;
  headers: Readonly<Record<string, string>>;
}

/** Makes, changes and removes the database's providers: each time with an audit row, and known to all replicas. */
export class ProviderDesk {
  readonly #options: ProviderDeskOptions;

  constructor(options: ProviderDeskOptions) {
    this.#options = options;
  }

  async list(actor: KeyActor): Promise<ShownProvider[]> {
    const { db, key } = this.#options;
    const clients = await listClients(db, { tenantId: tenantOf(actor) });
    return await Promise.all(clients.map((client) => showProvider(client, key)));
  }

  async read(actor: KeyActor, clientId: string): Promise<ShownProvider> {
    return await showProvider(await this.#find(actor, clientId), this.#options.key);
  }

  /** `settings` as a file would have them, key and headers among them. */
  async create(actor: KeyActor, name: string, settings: JsonObject): Promise<ShownProvider> {
    const tenantId = tenantOf(actor);
    this.#hide(settings);
    const provider = check(name, settings);
    const clientId = this.#options.ids.next("cli");
    const { kind } = provider;
    const plain = withoutSecrets(settings);
    const secrets = await this.#seal(clientId, { tenantId, ...secretsOf(provider) });
    const audit = this.#audit(actor, "provider.create", { name, ...facts(provider, plain) });
    try {
      const client = { tenantId, clientId, name, kind, settings: plain };
      await createClient(this.#options.db, { ...client, secrets, audit });
    } catch (error) {
      if (!isUniqueViolation(error)) throw error;
      throw new HubError("conflict", `There is a provider ${name} in the database already`);
    }
    await this.#tell();
    return await this.read(actor, clientId);
  }

  /**
   * Changes what is given; null takes a setting away. A key that is given holds at once, and alone. Secrets never follow
   * to another address: there they must be given again.
   */
  async change(actor: KeyActor, clientId: string, change: JsonObject): Promise<ShownProvider> {
    const { db, key } = this.#options;
    const client = await this.#find(actor, clientId);
    const { tenantId, name, version } = client;
    this.#hide(change);
    const opened = await openSecrets(client, key);
    const before = settingsOf(client, opened);
    const merged = Object.fromEntries(
      Object.entries({ ...before, ...change }).filter(([, value]) => value !== null),
    ) as JsonObject;
    const provider = check(name, merged);
    const isMoved = originOf(provider) !== originOf(check(name, before, "stays"));
    for (const secret of ["apiKey", "headers"]) {
      if (!isMoved || before[secret] === undefined || change[secret] !== undefined) continue;
      throw new HubError(
        "invalid_request",
        `${secret}: got nothing, wanted a value or null: the address changes, and a stored secret is sent only to the address that it was given for`,
        { param: secret },
      );
    }
    const given = secretsOf(provider);
    const changed: SealedField[] = [];
    if (change["apiKey"] !== undefined) {
      changed.push(await this.#sealOne(client, "api_key", given.apiKey ?? ""));
    }
    if (change["apiKey"] !== undefined || isMoved) {
      changed.push({ ...await this.#sealOne(client, "api_key_former", ""), expired: true });
    }
    if (change["headers"] !== undefined) {
      changed.push(await this.#sealOne(client, "headers", headersText(given.headers)));
    }
    const settings = withoutSecrets(merged);
    const details = { changed: Object.keys(change), ...facts(provider, settings) };
    const audit = this.#audit(actor, "provider.change", details);
    const { kind } = provider;
    const action = { tenantId, clientId, version, audit };
    const done = changeClient(db, { ...action, kind, settings, secrets: changed });
    await this.#changed(actor, clientId, done);
    return await this.read(actor, clientId);
  }

  /** Another key; the one that it has holds until the provider has taken the new one. */
  async rotate(actor: KeyActor, clientId: string, apiKey: string): Promise<ShownProvider> {
    this.#hide({ apiKey });
    const client = await this.#find(actor, clientId);
    const { tenantId, name, version, kind, settings } = client;
    check(name, settingsOf({ kind, settings }, { api_key: apiKey }));
    const sealed = await this.#sealOne(client, "api_key", apiKey);
    const audit = this.#audit(actor, "provider.rotate", { name });
    const action = { tenantId, clientId, version, audit };
    await this.#changed(actor, clientId, rotateClientKey(this.#options.db, { ...action, sealed }));
    return await this.read(actor, clientId);
  }

  async remove(actor: KeyActor, clientId: string): Promise<void> {
    const { tenantId, name } = await this.#find(actor, clientId);
    const audit = this.#audit(actor, "provider.remove", { name });
    if (!await removeClient(this.#options.db, { tenantId, clientId, audit })) {
      throw missing(clientId);
    }
    await this.#tell();
  }

  /** Seals everything again that a former master key has sealed, so that nothing needs that any more. */
  async reseal(
    actor: KeyActor,
  ): Promise<{ masterKeyId: string; resealed: number; left: number }> {
    const { db, key } = this.#options;
    const tenantId = tenantOf(actor);
    const pepper = await this.#options.pepper.store();
    const { resealed, left } = await resealClientSecrets(
      db,
      await listClients(db, { tenantId }),
      key,
    );
    const mcp = await resealMcp(db, { tenantId, key });
    const done = {
      masterKeyId: key.id,
      resealed: resealed + mcp.resealed + Number(pepper),
      left: left + mcp.left,
    };
    const audit = this.#audit(actor, "secrets.reseal", done);
    await writeAudit(db, { tenantId, audit, subject: key.id });
    await this.#tell();
    return done;
  }

  async #find(actor: KeyActor, clientId: string): Promise<StoredClient> {
    const tenantId = tenantOf(actor);
    const [client] = await listClients(this.#options.db, { tenantId, clientId });
    if (client === undefined) throw missing(clientId);
    return client;
  }

  async #changed(actor: KeyActor, clientId: string, changing: Promise<boolean>): Promise<void> {
    if (await changing) return await this.#tell();
    const { name } = await this.#find(actor, clientId);
    throw new HubError(
      "conflict",
      `The provider ${name} was changed meanwhile, and this change was not made: look at it and try again`,
    );
  }

  async #seal(
    clientId: Id<"cli">,
    { tenantId, apiKey, headers }: Secrets & { tenantId: string },
  ): Promise<SealedField[]> {
    const client = { tenantId, clientId };
    return [
      ...(apiKey === undefined ? [] : [await this.#sealOne(client, "api_key", apiKey)]),
      ...(Object.keys(headers).length === 0
        ? []
        : [await this.#sealOne(client, "headers", headersText(headers))]),
    ];
  }

  #sealOne(
    { tenantId, clientId }: { tenantId: string; clientId: string },
    field: SecretField,
    value: string,
  ): Promise<SealedField> {
    return sealField(value, { tenantId, clientId, field, key: this.#options.key });
  }

  /** Whatever came as a secret, in whatever form, is kept out of the log. */
  #hide(settings: JsonObject): void {
    const { apiKey, headers } = settings;
    for (const value of [apiKey, ...Object.values((headers ?? {}) as JsonObject)]) {
      if (typeof value === "string") this.#options.addSecret(value);
    }
  }

  #audit({ keyId }: KeyActor, action: string, details: JsonObject): AuditEntry {
    return { auditId: this.#options.ids.next("aud"), actorKeyId: keyId, action, details };
  }

  async #tell(): Promise<void> {
    await this.#options.onChange?.();
    // Without it the others find it within seconds.
    if (this.#options.notify) await notify(this.#options.db, { providers: true }).catch(() => {});
  }
}

/** Providers serve the whole hub, so that they are its own tenant's to manage. */
function tenantOf({ tenantId }: KeyActor): string {
  if (tenantId === DEFAULT_TENANT_ID) return tenantId;
  throw new HubError(
    "permission_denied",
    "Providers serve all tenants, and are managed by keys of the hub's own tenant only",
  );
}

/** The provider of these settings. What is stored is never refused here (`stays`), as it may have to be mended. */
function check(name: string, settings: JsonObject, mode?: "stays"): LoadedProvider {
  const read = readStoredProvider(name, settings);
  if (read.ok) return read.provider;
  if (mode === "stays") return { ...settings } as LoadedProvider;
  throw new HubError("invalid_request", read.message);
}

/** What an audit row says of a provider. */
function facts({ kind, apiKey, headers = {} }: LoadedProvider, settings: JsonObject): JsonObject {
  return { kind, settings, hasKey: apiKey !== undefined, headers: Object.keys(headers) };
}

function withoutSecrets(settings: JsonObject): JsonObject {
  const { apiKey: _, headers: __, kind: ___, ...plain } = settings;
  return plain;
}

function secretsOf({ apiKey, headers = {} }: LoadedProvider): Secrets {
  return { apiKey, headers };
}

function headersText(headers: Readonly<Record<string, string>>): string {
  return Object.keys(headers).length === 0 ? "" : JSON.stringify(headers);
}

function originOf({ baseUrl }: LoadedProvider): string {
  return baseUrl === undefined || !URL.canParse(baseUrl) ? "" : new URL(baseUrl).origin;
}

function missing(clientId: string): HubError {
  return new HubError("not_found", `There is no provider ${clientId} in the database`);
}
