import { HubError, toHubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import type { Database } from "../store/database.ts";
import { readHubSecret, resealHubSecret } from "../store/hub_secrets.ts";
import type { MasterKey } from "../store/master_key.ts";
import { DEFAULT_TENANT_ID } from "../store/tenant.ts";
import { derivePepper, isHashOf } from "./api_key.ts";
import { isSignatureOf, signPayload } from "./browser_token.ts";

const PLACE = { tenantId: DEFAULT_TENANT_ID, name: "api_key_pepper" };

/** What keeping the pepper needs. */
export interface PepperOptions {
  db: Database;
  key: MasterKey;
  log: Log;
}

/**
 * The secret that hashes of API keys and signatures of browser tokens are made with. It is that of the first master key there
 * was, and is stored, sealed, as soon as it is known which one that is: so API keys stay valid when the master key changes.
 */
export class Pepper {
  readonly #options: PepperOptions;
  /** One, or what each master key gives as long as no API key has shown which one it is. */
  #candidates: readonly Uint8Array[];
  #isStored: boolean;

  private constructor(
    options: PepperOptions,
    { candidates, isStored }: { candidates: readonly Uint8Array[]; isStored: boolean },
  ) {
    this.#options = options;
    this.#candidates = candidates;
    this.#isStored = isStored;
  }

  /** Throws `invalid_configuration` when it was sealed with a master key that is not here. */
  static async load(options: PepperOptions): Promise<Pepper> {
    const { db, key } = options;
    const stored = await readHubSecret(db, { ...PLACE, key });
    const candidates = stored === null
      ? [key, ...key.former ?? []].map(({ bytes }) => derivePepper(bytes))
      : [Uint8Array.fromHex(stored)];
    return new Pepper(options, { candidates, isStored: stored !== null });
  }

  /** For the hash of a new key. Throws `invalid_configuration` as long as nobody knows which one it is. */
  get value(): Uint8Array {
    const [first] = this.#candidates;
    if (first !== undefined && this.#candidates.length === 1) return first;
    throw new HubError(
      "invalid_configuration",
      "It is not known yet which of several master keys the API keys were made with: call a hub with one of them first",
    );
  }

  /** As long as there is no API key at all it may be any: it is the newest master key's from now on. */
  choose(): void {
    this.#candidates = this.#candidates.slice(0, 1);
  }

  /** Whether the hash is the token's; the first that is shows which pepper it is. */
  isHashOf(token: string, hash: Uint8Array): boolean {
    return this.#isShown((pepper) => isHashOf(token, hash, pepper));
  }

  /** The signature of a browser token's payload. Throws as `value` does. */
  sign(payload: string): string {
    return signPayload(payload, this.value);
  }

  /** Whether the signature is the payload's; the first that is shows which pepper it is. */
  isSignatureOf(payload: string, signature: string): boolean {
    return this.#isShown((pepper) => isSignatureOf(payload, signature, pepper));
  }

  #isShown(isMadeWith: (pepper: Uint8Array) => boolean): boolean {
    const found = this.#candidates.find(isMadeWith);
    if (found === undefined) return false;
    if (this.#candidates.length > 1) this.#candidates = [found];
    if (!this.#isStored) this.#storeSoon();
    return true;
  }

  /** Seals it with the newest master key; true when that was done now. */
  async store(): Promise<boolean> {
    const { db, key } = this.#options;
    const isNews = await resealHubSecret(db, { ...PLACE, value: this.value.toHex(), key });
    this.#isStored = true;
    return isNews;
  }

  #storeSoon(): void {
    this.#isStored = true;
    this.store().catch((error) => {
      this.#isStored = false;
      this.#options.log.warn("The pepper of API keys was not stored", { error: toHubError(error) });
    });
  }
}
