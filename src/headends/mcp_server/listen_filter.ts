import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import type { Caller } from "./served_tool.ts";
import type { ClientSubscriptions, Subscriptions } from "./subscriptions.ts";

/** The one method of revision 2026-07-28 whose answer never ends by itself. */
export const LISTEN = "subscriptions/listen";

/** More than these of one request are left out: to look at each costs the hub, and a client may follow fewer. */
const MAX_URIS = 1000;

/** The resources that a client wants to hear of, the first of them; empty for whatever else a message is. */
export function listenedUris(message: Json): string[] {
  const uris = filterOf(message)?.["resourceSubscriptions"];
  const texts = Array.isArray(uris) ? uris.filter((uri) => typeof uri === "string") : [];
  return [...new Set(texts.slice(0, MAX_URIS))];
}

/** Follows what a client wants to hear of, as far as it may; gives the request with what is left of it. */
export async function followListened(
  message: JsonObject,
  { subscriptions, caller, tell }: {
    subscriptions: Subscriptions;
    caller: Caller;
    tell(uri: string): void;
  },
): Promise<{ message: JsonObject; own: ClientSubscriptions }> {
  const own = subscriptions.begin(caller, tell);
  const uris = listenedUris(message);
  const added = await Promise.all(
    uris.map((uri) => own.add(uri).then(() => true, () => false)),
  );
  const resourceSubscriptions = uris.filter((_, at) => added[at]);
  const params = isJsonObject(message["params"]) ? message["params"] : {};
  const notifications = { ...filterOf(message), resourceSubscriptions };
  return { message: { ...message, params: { ...params, notifications } }, own };
}

function filterOf(message: Json): JsonObject | null {
  if (!isJsonObject(message) || message["method"] !== LISTEN) return null;
  const { params } = message;
  return isJsonObject(params) && isJsonObject(params["notifications"])
    ? params["notifications"]
    : null;
}
