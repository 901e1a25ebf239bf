import type { OAuthTokens } from "@modelcontextprotocol/client";
import { BoundedMap } from "../core/bounded_map.ts";
import { type Clock, sleep } from "../core/clock.ts";
import { HubError, toHubError } from "../core/error.ts";
import { type Id, toUuid } from "../core/id.ts";
import type { Json } from "../core/json.ts";
import type { Log } from "../core/log.ts";
import type { Principal } from "../core/tool.ts";
import type { McpAuth, TokenOwner, TokenSource } from "../mcp/oauth/auth_provider.ts";
import { type Grantor, refresh } from "../mcp/oauth/authorization.ts";
import { createGuardedFetch, type PinnedFetch } from "../mcp/oauth/guarded_fetch.ts";
import { loadSdk } from "../mcp/oauth/sdk.ts";
import type { Database } from "../store/database.ts";
import type { MasterKey } from "../store/master_key.ts";
import { removeRegistration } from "../store/mcp_authorizations.ts";
import {
  claimRefresh,
  endGrant,
  type GrantFacts,
  type GrantOwner,
  listGranted,
  openGrant,
  postponeRefresh,
  readGrant,
  saveRefreshed,
  saveWantedScope,
  type StoredGrant,
  WHOLE_TENANT,
} from "../store/mcp_grants.ts";
import { DEFAULT_TENANT_ID } from "../store/tenant.ts";

/** A server that lets in whoever has a token. */
export interface OAuthServer {
  url: string;
  clientId?: string | undefined;
  clientSecret?: string | undefined;
  scopes?: readonly string[] | undefined;
  privateOrigins?: readonly string[] | undefined;
}

/** `failed`: it is tried again later; `refused`: only a person can help. */
export type RefreshOutcome = "succeeded" | "failed" | "refused";

/** What tokens of MCP servers need. */
export interface McpTokensOptions {
  db: Database;
  key: MasterKey;
  clock: Clock;
  log: Log;
  randomBytes: (length: number) => Uint8Array;
  fetch: PinnedFetch;
  lookup(host: string): Promise<readonly string[]>;
  /** Called with how each refresh of this replica has ended. */
  observeRefresh?(refreshed: { server: string; outcome: RefreshOutcome }): void;
  /** The server of this name; null where there is none, or none that wants tokens. */
  serverOf(name: string): OAuthServer | null;
}

/** What is in the box of a grant. */
export interface GrantSecret {
  /** The address that the tokens were given for: they go to no other. */
  serverUrl: string;
  grantor: Grantor;
  tokens: OAuthTokens;
}

/** Longer than a refresh can take; whoever holds it is gone when it is over. */
const LEASE_MS = 60_000;
const MAX_WORKED = 10_000;
const POLL_MS = 50;
const SAVE_ATTEMPTS = 3;
const FIRST_BACKOFF_MS = 2000;
const LONGEST_BACKOFF_MS = 300_000;

/**
 * The tokens of MCP servers: each key has its own, or uses those that an operator got for its tenant. However many
 * replicas find a token refused, one of them refreshes it; when that is refused, only a person can help.
 */
export class McpTokens implements McpAuth {
  readonly shared: TokenOwner = { tenantId: DEFAULT_TENANT_ID, owner: WHOLE_TENANT };
  readonly #options: McpTokensOptions;
  /** Refreshes of this replica that are under way. */
  readonly #refreshing = new Map<string, Promise<void>>();

  /** Tokens that a server has let in: when one is refused later, its time was over. */
  readonly #worked = new BoundedMap<string, true>(MAX_WORKED);

  constructor(options: McpTokensOptions) {
    this.#options = options;
  }

  /** The tokens of an owner for a server. */
  sourceOf(server: string, { tenantId, owner: name }: TokenOwner): TokenSource {
    const owner = { tenantId, server, owner: name };
    return {
      current: () => this.#current(owner),
      refused: (token) => this.#refused(owner, token),
      worked: (token) => {
        if (this.#worked.get(token) === undefined) this.#worked.set(token, true);
      },
      insufficient: (scope) => this.#insufficient(owner, scope),
    };
  }

  async whose(
    server: string,
    caller: Pick<Principal, "tenantId" | "keyId">,
  ): Promise<TokenOwner & { isReady: boolean } | null> {
    const grant = await readGrant(this.#options.db, ownerOf(server, caller));
    if (grant === null) return null;
    const { tenantId, owner, state } = grant;
    return { tenantId, owner, isReady: state === "ready" };
  }

  async gone<T extends TokenOwner & { server: string }>(owned: readonly T[]): Promise<T[]> {
    const gone: T[] = [];
    for (const [tenantId, some] of Map.groupBy(owned, (one) => one.tenantId)) {
      const owners = [...new Set(some.map(({ owner }) => owner))];
      const granted = await listGranted(this.#options.db, { tenantId, owners });
      const held = new Set(granted.map(({ server, owner }) => JSON.stringify([server, owner])));
      gone.push(...some.filter(({ server, owner }) => !held.has(JSON.stringify([server, owner]))));
    }
    return gone;
  }

  async #current(owner: GrantOwner): Promise<string | null> {
    for (;;) {
      const found = await this.#read(owner);
      if (found === null) return null;
      const { grant, secret: { tokens } } = found;
      if (!grant.isDue || tokens.refresh_token === undefined) return tokens.access_token;
      try {
        await this.#refresh(grant, found.secret);
      } catch (error) {
        if (toHubError(error).code === "needs_authorization" || grant.isOver) throw error;
        return tokens.access_token;
      }
    }
  }

  async #refused(owner: GrantOwner, token: string | null): Promise<void> {
    const found = await this.#read(owner);
    if (found === null) throw needsAuthorization(owner.server, "nobody has authorized the hub");
    const { grant, secret } = found;
    if (token === null || token !== secret.tokens.access_token) return;
    const { server } = owner;
    if (grant.isFresh && !grant.isOver && this.#worked.get(token) === undefined) {
      return await this.#end(grant, `${server} refused a token that was just refreshed`);
    }
    if (secret.tokens.refresh_token === undefined) {
      return await this.#end(grant, `${server} refused its token, which cannot be refreshed`);
    }
    await this.#refresh(grant, secret);
  }

  async #insufficient(owner: GrantOwner, scope: string | undefined): Promise<never> {
    const { server } = owner;
    const grant = await readGrant(this.#options.db, owner);
    if (grant !== null && scope !== undefined) {
      await saveWantedScope(this.#options.db, { grant, scope });
    }
    const wanted = scope === undefined ? "more" : `the scope ${scope}`;
    throw needsAuthorization(server, `it wants ${wanted}`);
  }

  /** The grant of an owner that may be used; null when there is none. Throws `needs_authorization`. */
  async #read(owner: GrantOwner): Promise<{ grant: StoredGrant; secret: GrantSecret } | null> {
    const { db, key, serverOf } = this.#options;
    const grant = await readGrant(db, owner);
    if (grant === null) return null;
    if (grant.state === "needs_auth") {
      throw needsAuthorization(owner.server, grant.reason ?? "its token is no longer valid");
    }
    const secret = await openGrant(grant, key) as unknown as GrantSecret;
    if (secret.serverUrl === serverOf(owner.server)?.url) return { grant, secret };
    throw needsAuthorization(owner.server, "the one that there is was given for another address");
  }

  async #refresh(grant: StoredGrant, secret: GrantSecret): Promise<void> {
    const { tenantId, server, owner, issuer, version } = grant;
    const name = JSON.stringify([tenantId, server, owner, issuer, version]);
    let refreshing = this.#refreshing.get(name);
    if (refreshing === undefined) {
      refreshing = this.#refreshOnce(grant, secret).finally(() => this.#refreshing.delete(name));
      this.#refreshing.set(name, refreshing);
    }
    await refreshing;
  }

  /** Refreshes this version of a grant, or waits until another replica has. */
  async #refreshOnce(grant: StoredGrant, secret: GrantSecret): Promise<void> {
    const { db, clock } = this.#options;
    const refreshOwner = this.#options.randomBytes(16).toHex();
    const untilMs = clock.monotonic() + 2 * LEASE_MS;
    while (!await claimRefresh(db, { grant, refreshOwner, leaseMs: LEASE_MS })) {
      const now = await readGrant(db, grant);
      if (now === null || now.version !== grant.version || now.issuer !== grant.issuer) return;
      if (now.isHeld && now.refreshOwner === null) {
        throw new HubError(
          "upstream_unreachable",
          `The token of ${grant.server} could not be refreshed ${now.failures} times, and is left alone for a while`,
        );
      }
      if (clock.monotonic() > untilMs) {
        throw new HubError("upstream_timeout", `The token of ${grant.server} is not refreshed yet`);
      }
      await sleep(clock, POLL_MS);
    }
    await this.#refreshClaimed(grant, { secret, refreshOwner });
  }

  async #refreshClaimed(
    grant: StoredGrant,
    { secret, refreshOwner }: { secret: GrantSecret; refreshOwner: string },
  ): Promise<void> {
    const { db, log, observeRefresh } = this.#options;
    const { server } = grant;
    const { grantor, tokens: { refresh_token: refreshToken = "" } } = secret;
    let tokens: OAuthTokens;
    try {
      const places = { ...this.#options.serverOf(server), serverUrl: secret.serverUrl };
      const fetch = createGuardedFetch({ ...this.#options, ...places });
      tokens = await refresh(await loadSdk(), { grantor, refreshToken, fetch });
    } catch (error) {
      const failure = toHubError(error);
      const { failures } = grant;
      const facts = { server, owner: grant.owner, issuer: grant.issuer };
      if (failure.code === "upstream_error" || failure.code === "upstream_unreachable") {
        observeRefresh?.({ server, outcome: "failed" });
        log.warn("The token of an MCP server could not be refreshed", { ...facts, error: failure });
        const backoffMs = Math.min(
          LONGEST_BACKOFF_MS,
          FIRST_BACKOFF_MS * 2 ** Math.min(failures, 10),
        );
        await postponeRefresh(db, { grant, refreshOwner, backoffMs });
        throw failure;
      }
      observeRefresh?.({ server, outcome: "refused" });
      log.warn("An MCP server needs an authorization", { ...facts, error: failure });
      if (isUnknownClient(failure)) await removeRegistration(db, grant);
      return await this.#end(grant, failure.message);
    }
    const next: GrantSecret = { ...secret, tokens };
    const times = timesOf(tokens);
    const saved = { grant, refreshOwner, secret: next as unknown as Json, ...times };
    let outcome: RefreshOutcome = "failed";
    try {
      await this.#saveSurely(() => saveRefreshed(db, { ...saved, key: this.#options.key }));
      outcome = "succeeded";
    } finally {
      observeRefresh?.({ server, outcome });
    }
  }

  /** The former refresh token may be void by now, so that what is not saved would be lost. */
  async #saveSurely(save: () => Promise<boolean>): Promise<void> {
    for (let attempt = 1;; attempt++) {
      try {
        await save();
        return;
      } catch (error) {
        if (attempt === SAVE_ATTEMPTS) throw error;
        await sleep(this.#options.clock, 250 * attempt);
      }
    }
  }

  async #end(grant: GrantFacts, reason: string): Promise<never> {
    await endGrant(this.#options.db, { grant, reason });
    throw needsAuthorization(grant.server, reason);
  }
}

/** Whose tokens a key uses first: its own. */
export function ownerOf(
  server: string,
  { tenantId, keyId }: Pick<Principal, "tenantId" | "keyId">,
): GrantOwner {
  return { tenantId, server, owner: toUuid(keyId as Id) };
}

/** What is stored of tokens in the clear. */
export function timesOf({ scope, expires_in: lifeSeconds }: OAuthTokens) {
  return { scope: scope ?? null, lifeSeconds: lifeSeconds ?? null };
}

/** Whether the issuer has forgotten the hub as a client. */
export function isUnknownClient({ details }: HubError): boolean {
  const code = details?.["oauthCode"];
  return code === "invalid_client" || code === "unauthorized_client";
}

function needsAuthorization(server: string, reason: string): HubError {
  return new HubError(
    "needs_authorization",
    `The MCP server ${server} needs an authorization (${reason}): POST /v1/mcp/${
      encodeURIComponent(server)
    }/authorize begins one`,
  );
}
