import type {
  AuthorizationServerMetadata,
  OAuthClientInformationMixed,
  OAuthTokens,
} from "@modelcontextprotocol/client";
import { HubError } from "../../core/error.ts";
import type { Discovered } from "./discover.ts";
import type { Fetch } from "./guarded_fetch.ts";
import { oauthFailure } from "./oauth_failure.ts";
import { parseSafeUrl } from "./safe_address.ts";
import type { Sdk } from "./sdk.ts";

/** The hub as a client of one authorization server. */
export interface Registration {
  client: OAuthClientInformationMixed;
  redirectUri: string;
}

/** How the hub may introduce itself. */
export interface ClientIdentity {
  redirectUri: string;
  /** Where the hub's client-id metadata document is; null unless that is https. */
  metadataUrl: string | null;
  /** What an operator has registered by hand. */
  configured: { clientId: string; clientSecret?: string | undefined } | null;
}

/** What is needed to speak to the token endpoint again. */
export interface Grantor {
  issuer: string;
  metadata: AuthorizationServerMetadata | null;
  resource: string;
  client: OAuthClientInformationMixed;
  redirectUri: string;
}

/** What the hub says of itself to authorization servers: to register, or as a client-id metadata document. */
export function clientMetadata(redirectUri: string) {
  return {
    client_name: "Loophub",
    redirect_uris: [redirectUri],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
  };
}

/** Whether what was registered once still does. */
export function isUsable(
  { client, redirectUri }: Registration,
  { identity, metadata }: { identity: ClientIdentity } & Pick<Discovered, "metadata">,
): boolean {
  const given = givenClient(identity, metadata);
  if (given !== null) return given.client_id === client.client_id;
  return redirectUri === identity.redirectUri;
}

/**
 * Gives the hub as a client of an authorization server: as the operator registered it, by its metadata document (CIMD),
 * or by registering it now (RFC 7591).
 */
export async function register(
  sdk: Sdk,
  { identity, discovered: { issuer, metadata, scope }, fetch }: {
    identity: ClientIdentity;
    discovered: Discovered;
    fetch: Fetch;
  },
): Promise<Registration> {
  const { redirectUri } = identity;
  const given = givenClient(identity, metadata);
  if (given !== null) return { client: given, redirectUri };
  if (metadata !== null && metadata.registration_endpoint === undefined) {
    throw new HubError(
      "needs_authorization",
      `The authorization server ${issuer} lets no client register by itself: register the hub there with the redirect URI ${redirectUri}, and set oauth.clientId of the server`,
    );
  }
  const methods = metadata?.token_endpoint_auth_methods_supported;
  const method = ["none", "client_secret_basic", "client_secret_post"]
    .find((name) => methods?.includes(name));
  const document = sdk.resolveClientMetadata({
    redirectUrl: redirectUri,
    clientMetadata: {
      ...clientMetadata(redirectUri),
      ...(method === undefined ? {} : { token_endpoint_auth_method: method }),
    },
  });
  try {
    const client = await sdk.registerClient(issuer, {
      ...(metadata === null ? {} : { metadata }),
      clientMetadata: document,
      ...(scope === undefined ? {} : { scope }),
      fetchFn: fetch,
    });
    if (!client.redirect_uris.includes(redirectUri)) {
      throw new HubError(
        "unsafe_server",
        `The authorization server ${issuer} registered another redirect URI than ${redirectUri}`,
      );
    }
    return { client, redirectUri };
  } catch (error) {
    throw oauthFailure(sdk, error, `Registering at ${issuer}`);
  }
}

/** Where a person lets the hub in, and what redeems the answer. */
export async function begin(
  sdk: Sdk,
  { discovered, registration, scope, state }: {
    discovered: Discovered;
    registration: Registration;
    scope: string | undefined;
    state: string;
  },
): Promise<{ url: URL; codeVerifier: string }> {
  const { issuer, metadata, resource } = discovered;
  try {
    const { authorizationUrl, codeVerifier } = await sdk.startAuthorization(issuer, {
      ...(metadata === null ? {} : { metadata }),
      clientInformation: registration.client,
      redirectUrl: registration.redirectUri,
      ...(scope === undefined ? {} : { scope }),
      state,
      resource,
    });
    return { url: parseSafeUrl(authorizationUrl.href), codeVerifier };
  } catch (error) {
    throw oauthFailure(sdk, error, `Beginning an authorization at ${issuer}`);
  }
}

/** Throws `unsafe_server` when an answer came from another authorization server than was asked (RFC 9207). */
export function assertIssuer(
  sdk: Sdk,
  { issuer, metadata }: Pick<Grantor, "issuer" | "metadata">,
  iss: string | undefined,
): void {
  try {
    sdk.validateAuthorizationResponseIssuer({
      iss,
      expectedIssuer: issuer,
      issParameterSupported: metadata?.authorization_response_iss_parameter_supported === true,
    });
  } catch {
    throw new HubError(
      "unsafe_server",
      `The answer is not from the authorization server ${issuer} that was asked, and was not used`,
    );
  }
}

/** Exchanges a code for tokens. */
export async function redeem(
  sdk: Sdk,
  { grantor, code, codeVerifier, iss, fetch }: {
    grantor: Grantor;
    code: string;
    codeVerifier: string;
    iss: string | undefined;
    fetch: Fetch;
  },
): Promise<OAuthTokens> {
  const { issuer, metadata, resource, client, redirectUri } = grantor;
  try {
    return assertBearer(
      await sdk.exchangeAuthorization(issuer, {
        ...(metadata === null ? {} : { metadata }),
        clientInformation: client,
        authorizationCode: code,
        ...(iss === undefined ? {} : { iss }),
        codeVerifier,
        redirectUri,
        resource,
        fetchFn: fetch,
      }),
    );
  } catch (error) {
    throw oauthFailure(sdk, error, `Redeeming the code at ${issuer}`);
  }
}

/** Exchanges a refresh token for new tokens; the refresh token stays when there is no new one. */
export async function refresh(
  sdk: Sdk,
  { grantor, refreshToken, fetch }: { grantor: Grantor; refreshToken: string; fetch: Fetch },
): Promise<OAuthTokens> {
  const { issuer, metadata, resource, client } = grantor;
  let status = 0;
  const watched: Fetch = async (url, init) => {
    const answer = await fetch(url, init);
    status = answer.status;
    return answer;
  };
  try {
    return assertBearer(
      await sdk.refreshAuthorization(issuer, {
        ...(metadata === null ? {} : { metadata }),
        clientInformation: client,
        refreshToken,
        resource,
        fetchFn: watched,
      }),
    );
  } catch (error) {
    throw oauthFailure(sdk, error, `The refresh at ${issuer}`, status);
  }
}

function givenClient(
  { configured, metadataUrl }: ClientIdentity,
  metadata: AuthorizationServerMetadata | null,
): OAuthClientInformationMixed | null {
  if (configured !== null) {
    const { clientId, clientSecret } = configured;
    return {
      client_id: clientId,
      ...(clientSecret === undefined ? {} : { client_secret: clientSecret }),
    };
  }
  if (metadataUrl === null || metadata?.client_id_metadata_document_supported !== true) return null;
  return { client_id: metadataUrl };
}

function assertBearer(tokens: OAuthTokens): OAuthTokens {
  if (tokens.token_type.toLowerCase() === "bearer") return tokens;
  throw new HubError("unsafe_server", "The authorization server gave a token of another type");
}
