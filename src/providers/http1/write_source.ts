import type { BodySource } from "../../core/body_source.ts";
import { HubError } from "../../core/error.ts";
import { joinBytes } from "../../core/join_bytes.ts";
import type { Connection } from "./connection.ts";

const LINE = "\r\n";
const encoder = new TextEncoder();

/**
 * Sends a body while it comes: a piece is asked for when the one before is written. Rejects with the socket's error; a body
 * that fails, or is not as long as was said, is told to `onFailure` first.
 */
export async function writeSource(
  connection: Connection,
  source: BodySource,
  onFailure: (error: unknown) => void,
): Promise<void> {
  const { length } = source;
  let sent = 0;
  const next = async (): Promise<Uint8Array | null> => {
    try {
      const piece = await source.pull();
      sent += piece?.length ?? 0;
      const isWrong = length !== null && (piece === null ? sent < length : sent > length);
      if (isWrong) {
        throw new HubError("internal_error", `A body of ${length} bytes has another length`);
      }
      return piece;
    } catch (error) {
      onFailure(error);
      throw error;
    }
  };
  for (;;) {
    if (connection.closed) throw new HubError("aborted", "The connection was closed");
    const piece = await next();
    if (piece === null) break;
    if (length !== null) {
      await connection.write(piece);
      continue;
    }
    const size = encoder.encode(piece.length.toString(16) + LINE);
    await connection.write(joinBytes([size, piece, encoder.encode(LINE)]));
  }
  if (length === null) await connection.write(encoder.encode(`0${LINE}${LINE}`));
}
