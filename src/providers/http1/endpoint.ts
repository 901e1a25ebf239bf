import { HubError } from "../../core/error.ts";

/** Where a URL leads: one pool of connections per `key`. */
export interface Endpoint {
  /** Scheme, host and port; names the pool. */
  key: string;
  tls: boolean;
  /** Name or address to connect to, IPv6 without brackets. */
  hostname: string;
  port: number;
  /** Value of the Host field: the port only where it is not the scheme's own (RFC 9110, 7.2). */
  host: string;
  /** Path and query in origin form (RFC 9112, 3.2.1). */
  target: string;
  /** `host:port` for messages. */
  label: string;
}

const MAX_CACHED = 512;

/** Reads an upstream URL. Throws `invalid_configuration` for other schemes and for credentials in the URL; the message never holds the URL's secrets. */
export function parseEndpoint(text: string): Endpoint {
  const url = URL.parse(text);
  if (url === null) {
    throw new HubError(
      "invalid_configuration",
      "An upstream's URL cannot be parsed; wanted http(s)://host[:port]/path",
    );
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw new HubError(
      "invalid_configuration",
      `An upstream's URL has the scheme ${url.protocol} where http: or https: is wanted`,
    );
  }
  if (url.username !== "" || url.password !== "") {
    throw new HubError(
      "invalid_configuration",
      `The URL of ${url.host} has credentials in it; put them into a header`,
    );
  }
  const tls = url.protocol === "https:";
  const port = url.port === "" ? (tls ? 443 : 80) : Number(url.port);
  const bracketed = url.hostname.startsWith("[");
  return {
    key: `${url.protocol}//${url.hostname}:${port}`,
    tls,
    hostname: bracketed ? url.hostname.slice(1, -1) : url.hostname,
    port,
    host: url.host,
    target: url.pathname + url.search,
    label: `${url.hostname}:${port}`,
  };
}

/** `parseEndpoint` with a bounded memory: a hub calls few different URLs, very often. */
export function createEndpointCache(): (url: string) => Endpoint {
  const known = new Map<string, Endpoint>();
  return (url) => {
    const cached = known.get(url);
    if (cached !== undefined) return cached;
    const endpoint = parseEndpoint(url);
    if (known.size >= MAX_CACHED) known.clear();
    known.set(url, endpoint);
    return endpoint;
  };
}
