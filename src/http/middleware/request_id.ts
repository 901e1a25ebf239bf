import type { IdSource } from "../../core/id.ts";
import type { HubRequest } from "../hub_request.ts";

/** Letters, digits and the separators of common id forms: safe in a header, a log line and a query. */
const SANE = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/;

/** The caller's `x-request-id` when it is a sane token, else a new `req_` id. */
export function requestIdOf(request: HubRequest, ids: IdSource): string {
  const given = request.header("x-request-id");
  return given !== null && SANE.test(given) ? given : ids.next("req");
}
