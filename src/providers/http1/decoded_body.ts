import { HubError } from "../../core/error.ts";
import { createContentDecoder, formatOf, RatioExceeded } from "../../wire/http1/content_decoder.ts";
import type { UpstreamResponse } from "../transport.ts";

const HIDDEN = new Set(["content-encoding", "content-length"]);

/**
 * The same answer with its content decoded, for upstreams that compress although `identity` was asked for. Its headers no
 * longer hold `content-encoding` and `content-length`. Throws `upstream_malformed` for a coding other than gzip and
 * deflate, after cancelling the answer.
 */
export function decodeBody(response: UpstreamResponse, coding: string): UpstreamResponse {
  const format = formatOf(coding);
  if (format === undefined) {
    response.cancel();
    throw new HubError(
      "upstream_malformed",
      `The upstream's answer has the content-encoding ${
        JSON.stringify(coding.slice(0, 40))
      } where identity was asked for`,
    );
  }
  let cancelled = false;
  const decoder = createContentDecoder(format, () => response.read());
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
      try {
        const piece = await decoder.read();
        if (!cancelled) return piece;
      } catch (error) {
        response.cancel();
        if (!cancelled) throw error instanceof HubError ? error : undecodable(format, error);
      }
      throw new HubError("aborted", "The call to the upstream was stopped");
    },
    cancel() {
      if (cancelled) return;
      cancelled = true;
      response.cancel();
      decoder.cancel();
    },
  };
}

function undecodable(format: string, cause: unknown): HubError {
  const what = cause instanceof RatioExceeded ? cause.message : `it is no valid ${format}`;
  return new HubError("upstream_malformed", `The upstream's answer cannot be read: ${what}`, {
    cause,
  });
}
