import { WorkStretch } from "../../core/next_turn.ts";

/** A coding of content (RFC 9110, 8.4.1) that the hub decodes. */
export type ContentFormat = "gzip" | "deflate";

const FORMATS: ReadonlyMap<string, ContentFormat> = new Map([
  ["gzip", "gzip"],
  ["x-gzip", "gzip"],
  ["deflate", "deflate"],
]);

/**
 * Compressed bytes decoded at a time. Deflate makes at most 1032 bytes of one, and the runtime decodes all it is given in
 * one piece: this bounds the piece to about 1 MiB.
 */
const STEP_BYTES = 1024;
/** Decoded bytes between two turns of the event loop. */
const STRETCH_BYTES = 1024 * 1024;
/** Most decoded bytes of a compressed one. JSON and event streams stay far below; only runs of one byte come near 1032. */
export const MAX_DECODED_RATIO = 256;
/** Decoded bytes that no ratio is asked of: small content may be as repetitive as it likes. */
export const FREE_DECODED_BYTES = 1024 * 1024;

/** The format of a `content-encoding`, in lower case; undefined for one that the hub does not decode. */
export function formatOf(coding: string): ContentFormat | undefined {
  return FORMATS.get(coding);
}

/** Content that decodes to more than `MAX_DECODED_RATIO` times its compressed size. */
export class RatioExceeded extends Error {
  override name = "RatioExceeded";

  constructor() {
    super(`it decodes to more than ${MAX_DECODED_RATIO} times its compressed size`);
  }
}

/** Content that is decoded while it is read. */
export interface ContentDecoder {
  /**
   * The next decoded bytes, never empty, at most about 1 MiB; null at the end. Rejects with `RatioExceeded`, with the
   * `source`'s own failure, or with the runtime's `TypeError` for content that is broken or cut.
   */
  read(): Promise<Uint8Array | null>;
  /** Stops decoding; a read that waits ends. */
  cancel(): void;
}

/**
 * Decodes in steps: nothing is decoded before it is asked for, and the event loop turns between steps. `source` gives the
 * compressed bytes, null at their end.
 */
export function createContentDecoder(
  format: ContentFormat,
  source: () => Promise<Uint8Array | null>,
): ContentDecoder {
  let piece: Uint8Array = new Uint8Array(0);
  let given = 0;
  let decoded = 0;
  const compressed = new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      while (piece.length === 0) {
        const next = await source();
        if (next === null) return controller.close();
        piece = next;
      }
      const step = piece.slice(0, STEP_BYTES);
      piece = piece.subarray(STEP_BYTES);
      given += step.length;
      controller.enqueue(step);
    },
  }, { highWaterMark: 0 });
  const reader = compressed.pipeThrough(new DecompressionStream(format)).getReader();
  const stretch = new WorkStretch(STRETCH_BYTES);
  return {
    async read() {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return null;
        decoded += value.length;
        if (decoded > FREE_DECODED_BYTES && decoded > given * MAX_DECODED_RATIO) {
          await reader.cancel().catch(() => {/* given up anyway */});
          throw new RatioExceeded();
        }
        await stretch.spend(value.length + STEP_BYTES);
        if (value.length > 0) return value;
      }
    },
    cancel() {
      piece = new Uint8Array(0);
      reader.cancel().catch(() => {/* given up anyway */});
    },
  };
}
