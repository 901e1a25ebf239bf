/** Why an API key holds no more. */
export type KeyEnd = "revoked" | "expired";

/** Why work of a key was stopped, for logs and clients. */
export function describeKeyEnd(end: KeyEnd): string {
  return end === "revoked" ? "its API key was revoked" : "its API key has expired";
}

/** Calls back once when a key ends, at once when it has; until what is returned is called. */
export type HoldKey = (keyId: string, onEnd: (end: KeyEnd) => void) => () => void;
