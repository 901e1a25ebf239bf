import type { BodySource } from "../core/body_source.ts";
import type { Endpoint } from "../providers/target.ts";
import type { UpstreamRequest, UpstreamResponse } from "../providers/transport.ts";
import type { AttemptOptions } from "./attempt_options.ts";
import type { Carried } from "./carried.ts";

/** How an answer passes: as events, as mere bytes, or not before it is whole. */
export type Passage = "events" | "bytes" | "whole";

/**
 * What is particular to this request in what goes to the transport. `onProgress` is called when a piece of a body that is
 * sent while it comes is waited for, and when it has come.
 */
export function describeRequest(
  { target, body, carried, headers = [], subpath = "" }: AttemptOptions,
  endpoint: Endpoint,
  onProgress: (isAwaited: boolean) => void,
): Omit<UpstreamRequest, "signal" | "connectTimeoutMs"> {
  const { fixedHeaders } = target;
  if (carried === undefined) {
    return { method: "POST", url: endpoint.url + subpath, headers, fixedHeaders, body };
  }
  const { method, path, source, once, hasBody } = carried;
  const own = fixedHeaders.filter(([name]) => name.toLowerCase() !== "content-type");
  return {
    method,
    url: endpoint.url + path,
    headers: [...own, ...carried.headers],
    body: hasBody ? body : null,
    once,
    ...(source === undefined ? {} : { source: watched(source, onProgress) }),
  };
}

/** How the answer to a carried request passes. JSON is read whole, so that what it says of usage is known. */
export function passageOf(response: UpstreamResponse, { isFile }: Carried): Passage {
  const type = (response.header("content-type") ?? "").toLowerCase();
  if (isFile) return "bytes";
  if (type.startsWith("text/event-stream")) return "events";
  return /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/.test(type) ? "whole" : "bytes";
}

function watched(
  { length, pull }: BodySource,
  onProgress: (isAwaited: boolean) => void,
): BodySource {
  return {
    length,
    async pull() {
      onProgress(true);
      try {
        return await pull();
      } finally {
        onProgress(false);
      }
    },
  };
}
