import { HubError } from "../core/error.ts";
import { joinBytes } from "../core/join_bytes.ts";
import type { UpstreamResponse } from "../providers/transport.ts";

/** A whole body; `onPiece` is called for each read. Cancels it and throws `upstream_malformed` past the bound. */
export async function readWhole(
  response: UpstreamResponse,
  { maxBytes, onPiece }: { maxBytes: number; onPiece: () => void },
): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for (;;) {
    const piece = await response.read();
    if (piece === null) return joinBytes(pieces);
    onPiece();
    size += piece.length;
    if (size > maxBytes) {
      response.cancel();
      throw new HubError("upstream_malformed", `The provider's answer has over ${maxBytes} bytes`);
    }
    pieces.push(piece);
  }
}
