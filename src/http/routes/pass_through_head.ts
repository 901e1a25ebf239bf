import { HubError } from "../../core/error.ts";
import type { HeaderPairs } from "../../providers/transport.ts";
import { PROVIDER_HEADER } from "../../router/choose_provider.ts";
import type { Call } from "../call.ts";
import { decode } from "../request_path.ts";
import type { HubRequest } from "../hub_request.ts";
import type { PassRow } from "./pass_through_table.ts";

/** Fields of the client that a provider gets to see, beside the content type; all others stay here. */
const PASSED: readonly string[] = ["accept", "openai-beta"];
const ID = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,199}$/;
/** Visible ASCII, its escapes whole. */
const QUERY = /^(?:[!-$&-~]|%[0-9A-Fa-f]{2})*$/;

/** Where a request goes. */
export interface PassAddress {
  /** The provider that the client names; null for none. */
  provider: string | null;
  /** Below the provider's base URL: made from the table's own path, never from the client's. */
  path: string;
}

/** Reads the address. Throws `invalid_request` for ids and queries that could mean something else elsewhere. */
export function addressOf(call: Call, { path }: PassRow): PassAddress {
  const params = call.params as Readonly<Record<string, string>>;
  const filled = path.slice("/v1".length).replaceAll(/:(\w+)/g, (_, name: string) => {
    const id = params[name] ?? "";
    if (!ID.test(id)) throw refuse(`${name} (in the path) is no id of a provider`, name);
    return id;
  });
  const { provider, search } = readSearch(call.search);
  const named = oneHeader(call.request, PROVIDER_HEADER);
  if (named !== null && provider !== null && named !== provider) {
    throw refuse(`The query and ${PROVIDER_HEADER} name two providers`, PROVIDER_HEADER);
  }
  return { provider: named ?? provider, path: search === "" ? filled : `${filled}?${search}` };
}

/** The fields that a provider gets. Throws `invalid_request` for ones that the connection claims (RFC 9110, 7.6.1). */
export function passedFields(request: HubRequest, contentType: string | null): HeaderPairs {
  const claimed = (oneHeader(request, "connection") ?? "").toLowerCase().split(",")
    .map((name) => name.trim());
  const passed: [string, string][] = [];
  for (const name of PASSED) {
    const value = oneHeader(request, name);
    if (value !== null && !claimed.includes(name)) passed.push([name, value]);
  }
  if (contentType === null) return passed;
  if (claimed.includes("content-type")) {
    throw refuse("The Connection header claims the content type", "Connection");
  }
  oneHeader(request, "content-type");
  return [["content-type", contentType], ...passed];
}

/** The query without `provider`, else as it came. */
function readSearch(search: string): { provider: string | null; search: string } {
  if (!QUERY.test(search)) {
    throw refuse("The query has a character that is not visible ASCII, or half an escape");
  }
  const providers: string[] = [];
  const others: string[] = [];
  for (const pair of search.split("&")) {
    const [name = "", ...value] = pair.split("=");
    if (decode(name) === "provider") providers.push(decode(value.join("=")));
    else others.push(pair);
  }
  if (providers.length > 1) throw refuse("The query names provider twice", "provider");
  return { provider: providers[0] ?? null, search: others.join("&") };
}

function oneHeader(request: HubRequest, name: string): string | null {
  if (request.isRepeated(name)) throw refuse(`The request has two ${name} headers`, name);
  return request.header(name);
}

function refuse(message: string, param?: string): HubError {
  return new HubError("invalid_request", message, param === undefined ? {} : { param });
}
