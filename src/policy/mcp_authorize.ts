import { HubError, toHubError } from "../core/error.ts";
import type { IdSource } from "../core/id.ts";
import type { Json, JsonObject } from "../core/json.ts";
import type { Principal } from "../core/tool.ts";
import {
  assertIssuer,
  begin,
  type ClientIdentity,
  type Grantor,
  isUsable,
  redeem,
  register,
  type Registration,
} from "../mcp/oauth/authorization.ts";
import { discover, type Discovered } from "../mcp/oauth/discover.ts";
import { createGuardedFetch, type Fetch } from "../mcp/oauth/guarded_fetch.ts";
import { loadSdk, type Sdk } from "../mcp/oauth/sdk.ts";
import { writeAudit } from "../store/audit.ts";
import {
  readRegistration,
  removeRegistration,
  saveAuthorization,
  saveRegistration,
  takeAuthorization,
} from "../store/mcp_authorizations.ts";
import {
  type GrantFacts,
  type GrantKey,
  type GrantOwner,
  readGrant,
  removeGrants,
  removeOtherGrants,
  saveGrant,
  WHOLE_TENANT,
} from "../store/mcp_grants.ts";
import {
  type GrantSecret,
  isUnknownClient,
  type McpTokensOptions,
  type OAuthServer,
  ownerOf,
  timesOf,
} from "./mcp_tokens.ts";
import { revokeGrant } from "./revoke_grant.ts";

/** What authorizing needs. */
export interface McpAuthorizeOptions extends McpTokensOptions {
  ids: IdSource;
  /** Whether a key still opens the hub. */
  isValid(key: { tenantId: string; keyId: string }): Promise<boolean>;
  /** Called on this replica when an owner has authorized. */
  onAuthorized?(owner: GrantOwner): void;
  /** Called on this replica when what an owner had authorized is gone. */
  onForgotten?(owner: GrantOwner): void;
}

/** For whom somebody authorizes. */
export interface Wish {
  server: string;
  principal: Principal;
  /** For all keys of the tenant, as operators may; else for the key itself. */
  isForTenant: boolean;
}

/** What the browser brought back. */
export interface CallbackFacts {
  state: string;
  code?: string | undefined;
  iss?: string | undefined;
  error?: string | undefined;
}

/** What waits for the browser to come back. */
interface BegunSecret {
  serverUrl: string;
  grantor: Grantor;
  codeVerifier: string;
}

/** How long somebody may take at the authorization server. */
const LIFE_MS = 10 * 60_000;
const TENANT_BYTES = 16;
const STATE_BYTES = TENANT_BYTES + 32;

/** Lets people authorize the hub at MCP servers, for themselves or for their tenant. */
export class McpAuthorize {
  readonly #options: McpAuthorizeOptions;

  constructor(options: McpAuthorizeOptions) {
    this.#options = options;
  }

  /** What there is for an owner; null when nobody has authorized. */
  async status(wish: Wish): Promise<GrantFacts | null> {
    this.#find(wish.server);
    const owner = ownerFor(wish);
    const grant = await readGrant(this.#options.db, owner);
    if (grant === null) return null;
    const { sealed: _, ...facts } = grant;
    return facts;
  }

  /** Begins an authorization: the address that a person opens, within ten minutes. */
  async begin(
    wish: Wish,
    { redirectUri, metadataUrl }: Pick<ClientIdentity, "redirectUri" | "metadataUrl">,
  ): Promise<{ url: string; expiresAt: number }> {
    const { db, key, clock } = this.#options;
    const server = this.#find(wish.server);
    const { clientId, clientSecret } = server;
    const configured = clientId === undefined ? null : { clientId, clientSecret };
    const identity: ClientIdentity = { redirectUri, metadataUrl, configured };
    const owner = ownerFor(wish);
    const sdk = await loadSdk();
    const fetch = this.#fetchFor(server);
    const { url: serverUrl, privateOrigins } = server;
    const discovered = await discover(sdk, { serverUrl, privateOrigins, fetch });
    const scope = await this.#scopeFor(sdk, { owner, server, discovered });
    const wanted = scope === undefined ? discovered : { ...discovered, scope };
    const registration = await this.#register(sdk, { owner, identity, discovered: wanted, fetch });
    const stateBytes = new Uint8Array(STATE_BYTES);
    stateBytes.set(Uint8Array.fromHex(owner.tenantId.replaceAll("-", "")));
    stateBytes.set(this.#options.randomBytes(STATE_BYTES - TENANT_BYTES), TENANT_BYTES);
    const state = stateBytes.toBase64({ alphabet: "base64url", omitPadding: true });
    const begun = await begin(sdk, { discovered, registration, scope, state });
    const { issuer, metadata, resource } = discovered;
    const secret: BegunSecret = {
      serverUrl,
      grantor: { issuer, metadata, resource, ...registration },
      codeVerifier: begun.codeVerifier,
    };
    await saveAuthorization(db, {
      ...owner,
      keyId: wish.principal.keyId,
      key,
      secret: secret as unknown as Json,
      stateHash: await hashOf(state),
      lifeMs: LIFE_MS,
    });
    await this.#note(wish.principal, "mcp.authorize", { ...owner, issuer });
    return { url: begun.url.href, expiresAt: clock.now() + LIFE_MS };
  }

  /** Finishes what was begun, once: the tokens are for whoever began it. Gives the name of the server. */
  async finish({ state, code, iss, error }: CallbackFacts): Promise<string> {
    const { db, key } = this.#options;
    const tenantId = tenantOf(state);
    const stateHash = await hashOf(state);
    const begun = tenantId === null
      ? null
      : await takeAuthorization(db, { tenantId, stateHash, key });
    if (begun === null) {
      throw new HubError(
        "invalid_request",
        "This authorization is not known, was finished already, or took too long: begin it again",
      );
    }
    const { server, owner, keyId } = begun;
    const { serverUrl, grantor, codeVerifier } = begun.secret as unknown as BegunSecret;
    const { issuer } = grantor;
    const grant: GrantKey = { tenantId: begun.tenantId, server, owner, issuer };
    if (!await this.#options.isValid(begun)) {
      throw new HubError("permission_denied", "The API key that began this authorization is void");
    }
    const known = this.#find(server);
    if (known.url !== serverUrl) {
      throw new HubError("conflict", `The address of ${server} was changed meanwhile: begin again`);
    }
    const sdk = await loadSdk();
    assertIssuer(sdk, grantor, iss);
    if (error !== undefined || code === undefined) {
      const reason = /^[a-z_]{1,60}$/.test(error ?? "") ? error : "no code came";
      throw new HubError("needs_authorization", `${server} was not authorized: ${reason}`);
    }
    const fetch = this.#fetchFor(known);
    const redeeming = redeem(sdk, { grantor, code, codeVerifier, iss, fetch });
    const tokens = await redeeming.catch(async (failed: unknown) => {
      if (isUnknownClient(toHubError(failed))) await removeRegistration(db, grant);
      throw failed;
    });
    const secret: GrantSecret = { serverUrl, grantor, tokens };
    await saveGrant(db, {
      ...grant,
      key,
      secret: secret as unknown as Json,
      ...timesOf(tokens),
    });
    await removeOtherGrants(db, grant);
    await this.#note({ tenantId: grant.tenantId, keyId }, "mcp.authorized", grant);
    this.#options.onAuthorized?.(grant);
    return server;
  }

  /** Forgets the tokens of an owner, and has them revoked where they came from; false when there were none. */
  async forget(wish: Wish): Promise<boolean> {
    const owner = ownerFor(wish);
    const grant = await readGrant(this.#options.db, owner);
    const had = await removeGrants(this.#options.db, owner);
    if (had) {
      this.#options.onForgotten?.(owner);
      await this.#note(wish.principal, "mcp.forget", owner);
      if (grant?.owner === owner.owner) await revokeGrant(grant, this.#options);
    }
    return had;
  }

  async #register(
    sdk: Sdk,
    { owner, identity, discovered, fetch }: {
      owner: GrantOwner;
      identity: ClientIdentity;
      discovered: Discovered;
      fetch: Fetch;
    },
  ): Promise<Registration> {
    const { db, key } = this.#options;
    const { issuer, metadata } = discovered;
    const kept = await readRegistration(db, { ...owner, issuer, key }) as unknown as
      | Registration
      | null;
    if (kept !== null && isUsable(kept, { identity, metadata })) return kept;
    const registration = await register(sdk, { identity, discovered, fetch });
    const { client } = registration;
    const expiresAt = "client_secret_expires_at" in client
      ? client.client_secret_expires_at ?? 0
      : 0;
    const secret = registration as unknown as Json;
    await saveRegistration(db, { ...owner, issuer, key, secret, expiresAt });
    return registration;
  }

  /** What the operator wants, or the server, with what was lacking; and a refresh token where that is a scope. */
  async #scopeFor(
    sdk: Sdk,
    { owner, server, discovered }: {
      owner: GrantOwner;
      server: OAuthServer;
      discovered: Discovered;
    },
  ): Promise<string | undefined> {
    const grant = await readGrant(this.#options.db, owner);
    const wanted = grant?.owner === owner.owner ? grant.wantedScope : null;
    const basic = server.scopes?.join(" ") ?? discovered.scope;
    const scope = wanted === null
      ? basic
      : sdk.computeScopeUnion(basic, grant?.scope ?? undefined, wanted);
    const offline = discovered.metadata?.scopes_supported?.includes("offline_access") === true;
    return scope !== undefined && offline ? sdk.computeScopeUnion(scope, "offline_access") : scope;
  }

  #find(name: string): OAuthServer {
    const server = this.#options.serverOf(name);
    if (server !== null) return server;
    throw new HubError("not_found", `There is no MCP server ${name} that can be authorized`);
  }

  #fetchFor({ url, privateOrigins }: OAuthServer): Fetch {
    return createGuardedFetch({ ...this.#options, serverUrl: url, privateOrigins });
  }

  async #note(
    { tenantId, keyId }: { tenantId: string; keyId: string },
    action: string,
    { server, owner, issuer }: GrantOwner & { issuer?: string },
  ): Promise<void> {
    const isForTenant = owner === WHOLE_TENANT;
    const details: JsonObject = { isForTenant, ...issuer === undefined ? {} : { issuer } };
    const auditId = this.#options.ids.next("aud");
    const audit = { auditId, actorKeyId: keyId, action, details };
    await writeAudit(this.#options.db, { tenantId, audit, subject: server });
  }
}

function ownerFor({ server, principal, isForTenant }: Wish): GrantOwner {
  const own = ownerOf(server, principal);
  return isForTenant ? { ...own, owner: WHOLE_TENANT } : own;
}

/** The tenant that a state names, since nothing is looked for across tenants; null for what is no state. */
function tenantOf(state: string): string | null {
  if (!/^[A-Za-z0-9_-]{64}$/.test(state)) return null;
  const hex = Uint8Array.fromBase64(state, { alphabet: "base64url" }).subarray(0, TENANT_BYTES)
    .toHex();
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

async function hashOf(state: string): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(state)));
}
