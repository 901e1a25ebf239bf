import { isJsonObject, type JsonObject } from "../core/json.ts";
import { createSseParser } from "../core/sse.ts";
import type { ChatChunkMaker } from "./chat_dialect.ts";
import { parseFrame } from "./parse_frame.ts";

/** Reads the frames of one streamed answer. */
export interface FrameReader {
  /** The chunks that a frame makes; none once the answer is done or has failed. */
  read(frame: JsonObject): JsonObject[];
  /** The chunks that the end of the body brings to light. */
  end?(): JsonObject[];
  readonly done: boolean;
}

/** Makes chunks of the events of a provider's stream: a frame each, in JSON. */
export function createSseChunks(reader: FrameReader): ChatChunkMaker {
  let chunks: JsonObject[] = [];
  const parser = createSseParser({
    onEvent({ data }) {
      let frame: unknown;
      try {
        frame = parseFrame(data);
      } catch {
        return;
      }
      if (isJsonObject(frame)) chunks.push(...reader.read(frame));
    },
  });
  const drain = () => {
    const made = chunks;
    chunks = [];
    return made;
  };
  return {
    push(bytes) {
      parser.push(bytes);
      return drain();
    },
    end() {
      parser.end();
      chunks.push(...reader.end?.() ?? []);
      return drain();
    },
    get done() {
      return reader.done;
    },
  };
}
