import { HubError } from "../core/error.ts";
import { MAX_SSE_EVENT_BYTES } from "../core/limits.ts";

/** Reads lines out of bytes that may be cut anywhere. */
export interface LineReader {
  /** The lines that these bytes complete. Throws `upstream_malformed` past the bound of an event. */
  push(bytes: Uint8Array): string[];
  /** The last line, if it has no end. */
  end(): string[];
}

/** Makes a reader of lines that end in a line feed, with or without a carriage return. */
export function createLineReader(): LineReader {
  const decoder = new TextDecoder();
  let rest = "";
  return {
    push(bytes) {
      const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      if (rest.length > MAX_SSE_EVENT_BYTES) {
        rest = "";
        throw new HubError(
          "upstream_malformed",
          `The provider sent a line of more than ${MAX_SSE_EVENT_BYTES} characters`,
        );
      }
      return lines;
    },
    end() {
      const last = rest + decoder.decode();
      rest = "";
      return last === "" ? [] : [last];
    },
  };
}
