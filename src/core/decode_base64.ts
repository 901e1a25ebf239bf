import { WorkStretch } from "./next_turn.ts";

/** Characters decoded at once; a multiple of 4. */
const PIECE_CHARS = 256 * 1024;

/** How many bytes a text of base64 stands for, padded or not. */
export function base64Bytes(text: string): number {
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  return Math.floor((text.length - padding) * 3 / 4);
}

/**
 * The bytes of a text of base64, decoded in pieces with turns of the event loop between them. Throws `SyntaxError` for what
 * is none. The caller has bounded the text's length.
 */
export async function decodeBase64(text: string): Promise<Uint8Array> {
  const plain = /\s/.test(text) ? text.replaceAll(/\s+/g, "") : text;
  const bytes = new Uint8Array(base64Bytes(plain));
  const stretch = new WorkStretch(PIECE_CHARS);
  let length = 0;
  for (let from = 0; from < plain.length; from += PIECE_CHARS) {
    const piece = Uint8Array.fromBase64(plain.slice(from, from + PIECE_CHARS));
    // Padding inside of the text ends what it stands for.
    if (from + PIECE_CHARS < plain.length && piece.length < PIECE_CHARS * 3 / 4) {
      throw new SyntaxError("base64 is padded before its end");
    }
    bytes.set(piece, length);
    length += piece.length;
    await stretch.spend(PIECE_CHARS);
  }
  return bytes.subarray(0, length);
}
