import { HubError } from "../../core/error.ts";
import { isLoopbackHost, isPrivateAddress } from "../../core/private_address.ts";

/** What the operator says of where a server and its authorization are. */
export interface AuthorizationPlaces {
  /** The address of the MCP server. */
  serverUrl: string;
  /** Origins in private networks that the server may name beside its own; port `*` stands for any. */
  privateOrigins?: readonly string[] | undefined;
}

/** Names of one socket: servers on this machine call themselves by any of them. */
const SAME_MACHINE: ReadonlySet<string> = new Set(["localhost", "127.0.0.1", "[::1]"]);

/** The parsed address. Throws `unsafe_server` unless it is https, or http on this machine, without credentials. */
export function parseSafeUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null) throw unsafe("An address is none", "wanted an https URL");
  const isSafe = url.protocol === "https:" ||
    url.protocol === "http:" && isLoopbackHost(url.hostname);
  if (!isSafe) {
    throw unsafe(`${shown(url)} is not safe`, "wanted https, or http on a loopback address");
  }
  if (url.username !== "" || url.password !== "") {
    throw unsafe(`${shown(url)} has credentials in it`, "wanted none");
  }
  return url;
}

/** `parseSafeUrl` for an address that the hub or a browser is to go to. Throws `unsafe_server` for a private one that is not allowed. */
export function parseNamedUrl(text: string, places: AuthorizationPlaces): URL {
  const url = parseSafeUrl(text);
  if (isPrivateHost(url.hostname) && !isAllowedPrivate(url, places)) throw privateError(url);
  return url;
}

/** Whether an address may be in a private network: that of a private server itself, or one that the operator names. */
export function isAllowedPrivate(
  url: URL,
  { serverUrl, privateOrigins = [] }: AuthorizationPlaces,
): boolean {
  const server = new URL(serverUrl);
  if (isPrivateHost(server.hostname) && placeOf(url) === placeOf(server)) return true;
  return privateOrigins.some((origin) =>
    origin.endsWith(":*")
      ? origin === `${url.protocol}//${url.hostname}:*`
      : new URL(origin).origin === url.origin
  );
}

/** Whether the host of a URL is this machine or a private address. */
export function isPrivateHost(host: string): boolean {
  return isLoopbackHost(host) || isPrivateAddress(host);
}

/** The error for an address in a private network. */
export function privateError(url: URL): HubError {
  return unsafe(
    `${shown(url)} is in a private network`,
    "wanted a public address, the server's own host and port, or one of its oauth.privateOrigins",
  );
}

/** An address without what may be secret in it. */
export function shown(url: URL): string {
  return `${url.protocol}//${url.host}${url.pathname}`.slice(0, 300);
}

/** The error for what a server may not name. */
export function unsafe(what: string, wanted: string): HubError {
  return new HubError("unsafe_server", `${what}: ${wanted}`);
}

/** Host and port, for which a server of WebSockets has other schemes. */
function placeOf({ protocol, hostname, port }: URL): string {
  const number = port || (protocol === "https:" || protocol === "wss:" ? "443" : "80");
  return `${SAME_MACHINE.has(hostname) ? "localhost" : hostname}:${number}`;
}
