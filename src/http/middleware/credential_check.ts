import { HubError } from "../../core/error.ts";
import type { HubRequest } from "../hub_request.ts";

/** The fields in which clients of every dialect send a key. */
const CREDENTIAL_FIELDS = ["authorization", "x-api-key", "x-goog-api-key"] as const;

/**
 * Refuses a request with two fields of one credential, on every route: a proxy in front may have checked the one that the
 * hub does not read. Throws `invalid_request`.
 */
export function assertSingleCredentials(request: HubRequest): void {
  for (const name of CREDENTIAL_FIELDS) {
    if (!request.isRepeated(name)) continue;
    throw new HubError("invalid_request", `The request has two ${name} headers, wanted one`);
  }
}
