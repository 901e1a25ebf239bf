import { createSseParser } from "../core/sse.ts";
import { parseFrame } from "./parse_frame.ts";

/** Whether every event of a stream can be read: JSON each, or the mark of the end. */
export function isSoundStream(bytes: Uint8Array): boolean {
  let sound = true;
  const parser = createSseParser({
    onEvent({ data }) {
      if (data.trimEnd() === "[DONE]") return;
      try {
        parseFrame(data);
      } catch {
        sound = false;
      }
    },
  });
  try {
    parser.push(bytes);
    return !parser.end() && sound;
  } catch {
    return false;
  }
}
