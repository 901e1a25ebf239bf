import { type Id, toUuid } from "../../src/core/id.ts";
import type { Log } from "../../src/core/log.ts";
import type { Principal } from "../../src/core/tool.ts";
import type { Fetch } from "../../src/mcp/oauth/guarded_fetch.ts";
import { McpAuthorize } from "../../src/policy/mcp_authorize.ts";
import { McpTokens, type OAuthServer as Guarded } from "../../src/policy/mcp_tokens.ts";
import type { Database } from "../../src/store/database.ts";
import type { MasterKey } from "../../src/store/master_key.ts";
import { DEFAULT_TENANT_ID } from "../../src/store/tenant.ts";
import { testIds } from "./postgres.ts";
import { createRawLog } from "./providers_rig.ts";
import { systemClock } from "./system_clock.ts";

/** Where authorization servers send the browser back to, in tests without a hub. */
export const REDIRECT_URI = "http://127.0.0.1:4141/v1/mcp/oauth/callback";

/** A master key of this number. */
export function masterKey(number: number, former: readonly MasterKey[] = []): MasterKey {
  const bytes = new Uint8Array(32).fill(number);
  return { bytes, id: `key${number}`, ...(former.length === 0 ? {} : { former }) };
}

/** What a replica knows of tokens for MCP servers. */
export interface OAuthReplica {
  tokens: McpTokens;
  authorize: McpAuthorize;
  lines: string[];
  /** Server and outcome of each refresh. */
  refreshes: string[];
}

/** Somebody with a key of its own. */
export function createPrincipal(name: string, tenantId = DEFAULT_TENANT_ID): Principal {
  return { tenantId, keyId: testIds.next("key"), keyName: name, role: "user" };
}

/** The parts of a replica that deal with tokens, for these servers by name. */
export function createReplica(
  db: Database,
  servers: Readonly<Record<string, Guarded>>,
  options: {
    key?: MasterKey;
    log?: Log;
    fetch?: Fetch;
    lookup?: (host: string) => Promise<readonly string[]>;
    isValid?: (key: { keyId: string }) => Promise<boolean>;
  } = {},
): OAuthReplica {
  const { log, lines } = createRawLog();
  const common = {
    db,
    key: options.key ?? masterKey(1),
    clock: systemClock,
    log: options.log ?? log,
    randomBytes: (length: number) => crypto.getRandomValues(new Uint8Array(length)),
    fetch: options.fetch ?? fetch,
    lookup: options.lookup ?? (() => Promise.resolve(["127.0.0.1"])),
    serverOf: (name: string) => servers[name] ?? null,
  };
  const refreshes: string[] = [];
  const tokens = new McpTokens({
    ...common,
    observeRefresh: ({ server, outcome }) => void refreshes.push(`${server} ${outcome}`),
  });
  const isValid = options.isValid ?? (() => Promise.resolve(true));
  const authorize = new McpAuthorize({ ...common, ids: testIds, isValid });
  return { tokens, authorize, lines, refreshes };
}

/** Whom a row belongs to. */
export const ownerOf = ({ keyId }: Principal) => toUuid(keyId as Id);

/** The facts that a browser brings back. */
export function factsOf(back: URL): {
  state: string;
  code?: string;
  iss?: string;
  error?: string;
} {
  return { state: "", ...Object.fromEntries(back.searchParams) };
}
