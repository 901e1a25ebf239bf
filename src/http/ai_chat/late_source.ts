import { toHubError } from "../../core/error.ts";
import { encodeAiSdkChunk } from "../../wire/ai_sdk_chunk.ts";
import { DONE_FRAME } from "../../wire/ui_stream.ts";
import { joinBytes } from "../../core/join_bytes.ts";
import type { ByteSource } from "../byte_source.ts";

const encoder = new TextEncoder();

/**
 * A stream that begins later, when it is known what it is of; until then its reader gets comments alone. A failure before
 * that is an `error` chunk, since the answer's status was sent long before.
 */
export function lateSource(opening: Promise<ByteSource>): ByteSource {
  let source: ByteSource | null = null;
  let isOver = false;
  let reason: unknown;
  let isLeft = false;
  opening.then((opened) => isLeft && opened.cancel(reason), () => {});
  return {
    async pull() {
      if (isOver) return null;
      try {
        source ??= await opening;
      } catch (error) {
        isOver = true;
        const { message: errorText } = toHubError(error);
        const frame = `data: ${encodeAiSdkChunk({ type: "error", errorText })}\n\n`;
        return joinBytes([encoder.encode(frame), DONE_FRAME]);
      }
      return await source.pull();
    },
    cancel(why) {
      reason = why;
      isLeft = true;
      if (source !== null) source.cancel(why);
    },
  };
}
