import type {
  AuthorizationServerMetadata,
  OAuthProtectedResourceMetadata,
} from "@modelcontextprotocol/client";
import { HubError } from "../../core/error.ts";
import type { Fetch } from "./guarded_fetch.ts";
import { type AuthorizationPlaces, parseNamedUrl, shown } from "./safe_address.ts";
import { type Sdk } from "./sdk.ts";

/** What a server says of who may let a client in. */
export interface Discovered {
  /** Identifier of the authorization server: whatever it gives is for it alone. */
  issuer: string;
  /** Null for servers from before there were metadata, whose endpoints are at known paths. */
  metadata: AuthorizationServerMetadata | null;
  /** The resource indicator that tokens are asked for (RFC 8707). */
  resource: string;
  scope: string | undefined;
}

/** Some servers guard what is sent to them only, and refuse any GET as unknown. */
const PROBES: readonly RequestInit[] = [
  { headers: { accept: "application/json" } },
  {
    method: "POST",
    headers: {
      accept: "application/json, text/event-stream",
      "content-type": "application/json",
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 0, method: "ping" }),
  },
];
const FALLBACK_STATUS = [404, 405];

/**
 * Finds the authorization server of an MCP server by its challenge, its protected-resource metadata (RFC 9728) and the
 * authorization server's metadata (RFC 8414, OpenID Connect Discovery). Throws `unsafe_server` when they are for another
 * resource, of another issuer, without PKCE, or name endpoints that are not https or in private networks.
 */
export async function discover(
  sdk: Sdk,
  { fetch, ...places }: AuthorizationPlaces & { fetch: Fetch },
): Promise<Discovered> {
  const { serverUrl } = places;
  const challenge = await readChallenge(sdk, { serverUrl, fetch });
  const protectedBy = await readResource(sdk, { serverUrl, fetch, url: challenge.url });
  const resource = protectedBy?.resource ?? sdk.resourceUrlFromServerUrl(serverUrl).href;
  const authorizationServer = protectedBy?.authorization_servers?.[0] ??
    String(new URL("/", serverUrl));
  parseNamedUrl(authorizationServer, places);
  const metadata = await readMetadata(sdk, { authorizationServer, fetch, places });
  const scope = challenge.scope ?? protectedBy?.scopes_supported?.join(" ");
  return { issuer: metadata?.issuer ?? authorizationServer, metadata, resource, scope };
}

/** What the server answers to somebody without a token. */
async function readChallenge(
  sdk: Sdk,
  { serverUrl, fetch }: { serverUrl: string; fetch: Fetch },
): Promise<{ url: URL | undefined; scope: string | undefined }> {
  for (const request of PROBES) {
    const answer = await fetch(serverUrl, request);
    if (answer.status !== 401) continue;
    const { resourceMetadataUrl: url, scope } = sdk.extractWWWAuthenticateParams(answer);
    return { url, scope };
  }
  return { url: undefined, scope: undefined };
}

async function readResource(
  sdk: Sdk,
  { serverUrl, fetch, url }: { serverUrl: string; fetch: Fetch; url: URL | undefined },
): Promise<OAuthProtectedResourceMetadata | null> {
  let status = 0;
  const watched: Fetch = async (target, init) => {
    const answer = await fetch(target, init);
    status = answer.status;
    return answer;
  };
  let found: OAuthProtectedResourceMetadata;
  try {
    const where = url === undefined ? {} : { resourceMetadataUrl: url };
    found = await sdk.discoverOAuthProtectedResourceMetadata(serverUrl, where, watched);
  } catch (error) {
    if (error instanceof HubError) throw error;
    // Servers from before RFC 9728 have none.
    if (url === undefined && FALLBACK_STATUS.includes(status)) return null;
    throw malformed(`The protected-resource metadata of ${shown(new URL(serverUrl))}`, status);
  }
  const { resource } = found;
  const isOurs = URL.canParse(resource) &&
    sdk.checkResourceAllowed({ requestedResource: serverUrl, configuredResource: resource });
  if (isOurs) return found;
  throw new HubError(
    "unsafe_server",
    `The protected-resource metadata of ${shown(new URL(serverUrl))} are for ${
      URL.canParse(resource) ? shown(new URL(resource)) : "no address"
    }: a token for another resource is not asked for`,
  );
}

async function readMetadata(
  sdk: Sdk,
  { authorizationServer, fetch, places }: {
    authorizationServer: string;
    fetch: Fetch;
    places: AuthorizationPlaces;
  },
): Promise<AuthorizationServerMetadata | null> {
  const where = shown(new URL(authorizationServer));
  let metadata: AuthorizationServerMetadata | undefined;
  try {
    const options = { fetchFn: fetch };
    metadata = await sdk.discoverAuthorizationServerMetadata(authorizationServer, options);
  } catch (error) {
    if (error instanceof HubError) throw error;
    if (error instanceof sdk.IssuerMismatchError) {
      throw new HubError(
        "unsafe_server",
        `The metadata of the authorization server ${where} are of another issuer`,
      );
    }
    throw malformed(`The metadata of the authorization server ${where}`, null);
  }
  if (metadata === undefined) return null;
  const { authorization_endpoint, token_endpoint, registration_endpoint } = metadata;
  for (const endpoint of [authorization_endpoint, token_endpoint, registration_endpoint]) {
    if (endpoint !== undefined) parseNamedUrl(endpoint, places);
  }
  if (metadata.code_challenge_methods_supported?.includes("S256") !== true) {
    throw new HubError("unsafe_server", `The authorization server ${where} does not offer PKCE`);
  }
  return metadata;
}

function malformed(what: string, status: number | null): HubError {
  const got = status === null || status === 200
    ? "are not what the standard says"
    : `have status ${status}`;
  return new HubError("upstream_malformed", `${what} ${got}`);
}
