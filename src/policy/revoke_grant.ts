import { toHubError } from "../core/error.ts";
import { createGuardedFetch } from "../mcp/oauth/guarded_fetch.ts";
import { revoke } from "../mcp/oauth/revoke.ts";
import { openGrant, type StoredGrant } from "../store/mcp_grants.ts";
import type { GrantSecret, McpTokensOptions } from "./mcp_tokens.ts";

/** Has the tokens of a grant revoked that was removed: they are to be nobody else's either. Never rejects; a failure is logged. */
export async function revokeGrant(grant: StoredGrant, options: McpTokensOptions): Promise<void> {
  const { server, owner, issuer } = grant;
  try {
    const secret = await openGrant(grant, options.key) as unknown as GrantSecret;
    const { grantor, tokens, serverUrl } = secret;
    const fetch = createGuardedFetch({ ...options, ...options.serverOf(server), serverUrl });
    await revoke({ grantor, tokens, fetch });
  } catch (error) {
    const facts = { server, owner, issuer, error: toHubError(error) };
    options.log.warn("The tokens of an MCP server were forgotten and not revoked", facts);
  }
}
