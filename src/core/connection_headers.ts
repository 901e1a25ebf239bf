/**
 * Header fields that say where a request goes, where it ends and what its connection does. Whoever writes the request
 * sets them, so that nobody can smuggle another one in; they cannot be configured.
 */
export const CONNECTION_HEADERS: ReadonlySet<string> = new Set([
  "accept-encoding",
  "connection",
  "content-length",
  "expect",
  "host",
  "keep-alive",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);
