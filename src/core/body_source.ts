/** A body that is sent on while it comes; read once. */
export interface BodySource {
  /** Bytes in all; null when only its end will tell. */
  readonly length: number | null;
  /** The next bytes, never empty, never written to again; null at the end. Rejects when the rest will not come. One at a time. */
  pull(): Promise<Uint8Array | null>;
}
