/** The protocol's package. It is loaded with the first server that needs it: a hub without such servers does without it. */
export type Sdk = typeof import("@modelcontextprotocol/client");

/** Loads the protocol's package. */
export function loadSdk(): Promise<Sdk> {
  return import("@modelcontextprotocol/client");
}
