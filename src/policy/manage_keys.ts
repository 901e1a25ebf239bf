import { HubError } from "../core/error.ts";
import type { IdSource } from "../core/id.ts";
import type { JsonObject } from "../core/json.ts";
import type { AuditEntry } from "../store/audit.ts";
import type { Database } from "../store/database.ts";
import {
  changeKey,
  createKey,
  type KeyChange,
  type NewKey,
  readKey,
  revokeKey,
  rotateKey,
  type StoredKey,
} from "../store/keys.ts";
import { notify } from "../store/notify.ts";
import { hashApiKey, makeApiKey } from "./api_key.ts";
import { assertKeyFacts } from "./key_facts.ts";
import type { Pepper } from "./pepper.ts";

/** What managing keys needs. */
export interface KeyDeskOptions {
  db: Database;
  ids: IdSource;
  randomBytes: (length: number) => Uint8Array;
  pepper: Pick<Pepper, "value">;
  /** Whether other replicas hear of changes at once, or find them with their next look. */
  notify: boolean;
  /** Called for this replica. */
  onChange?(): Promise<void>;
}

/** Who manages: the key that asks, or null for the command line. */
export interface KeyActor {
  tenantId: string;
  keyId: string | null;
}

/** Makes, changes, rotates and revokes the keys of a tenant: each time with an audit row, and known to all replicas. */
export class KeyDesk {
  readonly #options: KeyDeskOptions;

  constructor(options: KeyDeskOptions) {
    this.#options = options;
  }

  /** `token` is nowhere else: the caller must show it. Throws `invalid_request` as `assertKeyFacts` does. */
  async create(
    actor: KeyActor,
    facts: Pick<NewKey, "name" | "role" | "expiresAt" | "owner" | "tags" | "policy">,
  ): Promise<{ key: StoredKey; token: string }> {
    const { db, ids } = this.#options;
    assertKeyFacts(facts);
    const { token, lookupId, hash } = this.#newToken();
    const keyId = ids.next("key");
    const { tenantId } = actor;
    const { role } = facts;
    const name = facts.name.trim();
    const audit = this.#audit(actor, "key.create", { name, role });
    await createKey(db, { ...facts, name, tenantId, keyId, lookupId, hash }, audit);
    await this.#tell();
    return { key: await this.#read(tenantId, keyId), token };
  }

  /** Changes what is given. The audit row says what it is now. Throws `invalid_request` as `assertKeyFacts` does. */
  async change(actor: KeyActor, keyId: string, wish: KeyChange): Promise<StoredKey> {
    assertKeyFacts(wish);
    const change = wish.name === undefined ? wish : { ...wish, name: wish.name.trim() };
    const details = JSON.parse(JSON.stringify(change)) as JsonObject;
    const audit = this.#audit(actor, "key.change", details);
    return await this.#acted(
      actor,
      keyId,
      changeKey(this.#options.db, { ...change, tenantId: actor.tenantId, keyId, audit }),
    );
  }

  /** A new token; the old one holds for the grace period. Throws `invalid_request` for one past 30 days. */
  async rotate(
    actor: KeyActor,
    keyId: string,
    graceMs: number,
  ): Promise<{ key: StoredKey; token: string }> {
    const graceSeconds = graceMs / 1000;
    assertKeyFacts({ graceSeconds });
    const { token, lookupId, hash } = this.#newToken();
    const audit = this.#audit(actor, "key.rotate", { graceSeconds });
    const { tenantId } = actor;
    const action = { tenantId, keyId, audit, lookupId, hash, graceMs };
    return { key: await this.#acted(actor, keyId, rotateKey(this.#options.db, action)), token };
  }

  async revoke(actor: KeyActor, keyId: string): Promise<StoredKey> {
    const audit = this.#audit(actor, "key.revoke", {});
    const { tenantId } = actor;
    return await this.#acted(
      actor,
      keyId,
      revokeKey(this.#options.db, { tenantId, keyId, audit }),
    );
  }

  #newToken(): { token: string; lookupId: string; hash: Uint8Array } {
    const { token, lookupId } = makeApiKey(this.#options.randomBytes);
    return { token, lookupId, hash: hashApiKey(token, this.#options.pepper.value) };
  }

  #audit({ keyId }: KeyActor, action: string, details: JsonObject): AuditEntry {
    return { auditId: this.#options.ids.next("aud"), actorKeyId: keyId, action, details };
  }

  async #acted(
    { tenantId }: KeyActor,
    keyId: string,
    acting: Promise<boolean>,
  ): Promise<StoredKey> {
    if (!await acting) {
      throw new HubError("not_found", `There is no key ${keyId} that is not revoked`);
    }
    await this.#tell();
    return await this.#read(tenantId, keyId);
  }

  async #read(tenantId: string, keyId: string): Promise<StoredKey> {
    const key = await readKey(this.#options.db, { tenantId, keyId });
    if (key === null) throw new HubError("not_found", `There is no key ${keyId}`);
    return key;
  }

  async #tell(): Promise<void> {
    await this.#options.onChange?.();
    // Without it the others find it within seconds.
    if (this.#options.notify) await notify(this.#options.db, { keys: true }).catch(() => {});
  }
}
