/** The part of a socket that clients need; `Deno.TcpConn` is such. */
export interface ByteSocket {
  /** Bytes read into the front of `into`, null at the end. */
  read(into: Uint8Array): Promise<number | null>;
  /** Number of bytes taken, at least one. */
  write(bytes: Uint8Array): Promise<number>;
  /** Ends pending reads and writes too. */
  close(): void;
}
