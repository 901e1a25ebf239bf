import { HubError } from "../../core/error.ts";
import type { Sdk } from "./sdk.ts";

/** Codes of RFC 6749 and its like; anything else is a foreign text. */
const CODE = /^[a-z_]{1,60}$/;

/**
 * What went wrong with an authorization server, without a word of its answer: that may hold tokens, or whatever it wants
 * somebody to read. `needs_authorization` when it refused, `upstream_error` when it may do better later.
 */
export function oauthFailure(sdk: Sdk, error: unknown, what: string, status = 0): HubError {
  if (error instanceof HubError) return error;
  if (error instanceof sdk.InsecureTokenEndpointError) {
    return new HubError("unsafe_server", `${what} failed: its token endpoint is not https`);
  }
  if (error instanceof sdk.IssuerMismatchError) {
    return new HubError("unsafe_server", `${what} failed: the answer is of another issuer`);
  }
  if (error instanceof sdk.RegistrationRejectedError) {
    return failure(error.status, `${what} was refused with status ${error.status}`);
  }
  if (error instanceof sdk.OAuthError) {
    const code = String(error.code);
    const clientCode = CODE.test(code) ? code : "an error";
    const isPassing = clientCode === "temporarily_unavailable" || clientCode === "slow_down";
    return failure(isPassing ? 503 : status, `${what} was refused: ${clientCode}`, clientCode);
  }
  return new HubError("upstream_malformed", `${what} failed: the answer is not of the standard`);
}

function failure(status: number, message: string, oauthCode?: string): HubError {
  const details = oauthCode === undefined ? {} : { details: { oauthCode } };
  return status >= 500 || status === 429
    ? new HubError("upstream_error", message, details)
    : new HubError("needs_authorization", message, details);
}
