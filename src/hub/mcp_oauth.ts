import type { McpServers } from "../mcp/mcp_servers.ts";
import { mayAuthorize } from "../mcp/may_authorize.ts";
import { resolveVariables } from "../mcp/resolve_variables.ts";
import type { KeySnapshots } from "../policy/key_snapshot.ts";
import { McpAuthorize } from "../policy/mcp_authorize.ts";
import { McpTokens, type OAuthServer } from "../policy/mcp_tokens.ts";
import { createConnect } from "../providers/http1/dial.ts";
import { resolveName } from "../providers/http1/guarded_connect.ts";
import { notify } from "../store/notify.ts";
import type { Wakeup } from "../store/wakeup.ts";
import type { Ground } from "./ground.ts";
import type { HubOptions } from "./hub_options.ts";
import type { LiveConfig } from "./live_config.ts";
import { createPinnedFetch } from "./pinned_fetch.ts";

/** The hub as an OAuth client of MCP servers. */
export interface McpOAuth {
  tokens: McpTokens;
  authorize: McpAuthorize;
}

/** Joins tokens of MCP servers with the configuration, the keys and the database. */
export function openMcpOAuth(
  options: HubOptions,
  { ground, keys, live, mcp }: {
    ground: Ground;
    keys: KeySnapshots;
    live: LiveConfig;
    mcp(): McpServers;
  },
): McpOAuth {
  const { env, addSecret } = options;
  const resolve = (text: string) => resolveVariables(text, env).text;
  const serverOf = (name: string): OAuthServer | null => {
    const { mcpServers } = live.config;
    const server = Object.hasOwn(mcpServers, name) ? mcpServers[name] : undefined;
    if (server === undefined || !server.enabled || !mayAuthorize(server)) return null;
    const oauth = server.oauth === false ? {} : server.oauth ?? {};
    const { clientId, clientSecret, scopes, privateOrigins } = oauth;
    const secret = clientSecret === undefined ? undefined : resolve(clientSecret);
    if (secret !== undefined) addSecret(secret);
    return {
      url: new URL(resolve(server.url ?? "")).href,
      clientId: clientId === undefined ? undefined : resolve(clientId),
      clientSecret: secret,
      scopes,
      privateOrigins,
    };
  };
  const common = {
    ...options,
    db: ground.db,
    key: ground.masterKey,
    fetch: createPinnedFetch({ clock: options.clock, connect: createConnect() }),
    lookup: options.resolveName ?? resolveName,
    serverOf,
  };
  const tell = (wakeup: Wakeup) => {
    if (!live.config.database.notify) return;
    notify(ground.db, wakeup).catch(() => {/* the others look themselves */});
  };
  const isValid = (key: { tenantId: string; keyId: string }) => keys.isValid(key);
  return {
    tokens: new McpTokens({ ...common, observeRefresh: ground.metrics.mcp.refresh }),
    authorize: new McpAuthorize({
      ...common,
      isValid,
      onAuthorized({ tenantId, server, owner }) {
        mcp().authorized(server, { tenantId, owner });
        tell({ granted: { tenantId, server, owner } });
      },
      onForgotten({ server, ...owner }) {
        mcp().forgotten(server, owner);
        tell({ mcp: true });
      },
    }),
  };
}
