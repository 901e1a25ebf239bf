/**
 * Header fields that say where a request goes, where it ends and what its connection does. The code that writes the
 * request sets them; they cannot be configured, as that would allow request smuggling.
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
