import type { HubRequest } from "./hub_request.ts";

/** What a request says it belongs to, in the headers that coding agents send; null when it says nothing. */
export function affinityOf(request: Pick<HubRequest, "header">): string | null {
  return request.header("x-session-affinity") ?? request.header("x-session-id");
}
