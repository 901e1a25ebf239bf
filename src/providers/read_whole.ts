import { HubError } from "../core/error.ts";
import { joinBytes } from "../core/join_bytes.ts";
import type { UpstreamResponse } from "./transport.ts";

/** A whole body; `onPiece` is told after each read how many bytes have come. Cancels it and throws `upstream_malformed` past the bound. */
export async function readWhole(
  response: UpstreamResponse,
  { maxBytes, onPiece }: { maxBytes: number; onPiece: (size: number) => void },
): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for (;;) {
    const piece = await response.read();
    if (piece === null) return joinBytes(pieces);
    size += piece.length;
    onPiece(size);
    if (size > maxBytes) {
      response.cancel();
      throw new HubError("upstream_malformed", `The provider's answer has over ${maxBytes} bytes`);
    }
    pieces.push(piece);
  }
}

const MAX_ERROR_BYTES = 64 * 1024;

/** The text of an error's body, up to 64 KiB; `onPiece` and failures as in `readWhole`. */
export async function readErrorText(
  response: UpstreamResponse,
  onPiece: () => void,
): Promise<string> {
  return new TextDecoder().decode(
    await readWhole(response, { maxBytes: MAX_ERROR_BYTES, onPiece }),
  );
}
