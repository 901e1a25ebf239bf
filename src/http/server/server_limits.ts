/** Bounds of a server; a client that passes one is answered or cut. */
export interface ServerLimits {
  /** From the connection, or the first byte of a further request, to the end of the header. */
  headersTimeoutMs: number;
  /** Reading the body, after the header's time. */
  requestTimeoutMs: number;
  /** An idle kept-alive connection. */
  idleTimeoutMs: number;
  maxHeaderBytes: number;
  maxHeaders: number;
  /** A client that takes nothing while bytes wait for it. */
  writeTimeoutMs: number;
}

/** Bounds used where the configuration sets none. */
export const DEFAULT_SERVER_LIMITS: Readonly<ServerLimits> = Object.freeze({
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  idleTimeoutMs: 75_000,
  maxHeaderBytes: 16_384,
  maxHeaders: 100,
  writeTimeoutMs: 60_000,
});
