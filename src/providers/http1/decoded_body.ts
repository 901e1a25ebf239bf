import { HubError } from "../../core/error.ts";
import type { UpstreamResponse } from "../transport.ts";

/** Compressed bytes handed to the decoder at a time: a bomb then unpacks in steps of a few MiB, between which the caller counts. */
const STEP_BYTES = 4 * 1024;
const FORMATS: Record<string, "gzip" | "deflate"> = {
  gzip: "gzip",
  "x-gzip": "gzip",
  deflate: "deflate",
};
const HIDDEN = new Set(["content-encoding", "content-length"]);

/**
 * The same answer with its content decoded, for upstreams that compress although `identity` was asked for. Its headers no
 * longer hold `content-encoding` and `content-length`. Throws `upstream_malformed` for a coding other than gzip and
 * deflate, after cancelling the answer.
 */
export function decodeBody(response: UpstreamResponse, coding: string): UpstreamResponse {
  const format = FORMATS[coding];
  if (format === undefined) {
    response.cancel();
    throw new HubError(
      "upstream_malformed",
      `The upstream's answer has the content-encoding ${
        JSON.stringify(coding.slice(0, 40))
      } where identity was asked for`,
    );
  }
  let piece = new Uint8Array(0) as Uint8Array;
  let cancelled = false;
  const source = new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      if (piece.length === 0) {
        const next = await response.read();
        if (next === null) return controller.close();
        piece = next;
      }
      controller.enqueue(piece.slice(0, STEP_BYTES));
      piece = piece.subarray(STEP_BYTES);
    },
  }, { highWaterMark: 0 });
  const reader = source.pipeThrough(new DecompressionStream(format)).getReader();
  return {
    status: response.status,
    header: (name) => HIDDEN.has(name) ? null : response.header(name),
    get headers() {
      return response.headers.filter(([name]) => !HIDDEN.has(name));
    },
    headersStartingWith(prefixes) {
      return response.headersStartingWith(prefixes).filter(([name]) => !HIDDEN.has(name));
    },
    async read() {
      for (;;) {
        try {
          const { value, done } = await reader.read();
          if (done && !cancelled) return null;
          if (value !== undefined && value.length > 0) return value;
        } catch (error) {
          response.cancel();
          if (!cancelled && !(error instanceof HubError)) {
            throw new HubError(
              "upstream_malformed",
              `The upstream's answer is no valid ${format}`,
              { cause: error },
            );
          }
          if (!cancelled) throw error;
        }
        if (cancelled) throw new HubError("aborted", "The call to the upstream was stopped");
      }
    },
    cancel() {
      if (cancelled) return;
      cancelled = true;
      response.cancel();
      reader.cancel().catch(() => {});
    },
  };
}
