import type { Fetch } from "./oauth/guarded_fetch.ts";

/**
 * Tells when a stream of events has ended, in order or not. Over HTTP+SSE the stream is the session: the protocol's
 * package would open another one by itself and go on as if the server knew it.
 */
export function watchStream(fetch: Fetch, onEnd: () => void): Fetch {
  return async (url, init) => {
    const answer = await fetch(url, init);
    const { body, status, statusText, headers } = answer;
    if (body === null || !(headers.get("content-type") ?? "").startsWith("text/event-stream")) {
      return answer;
    }
    const reader = body.getReader();
    const watched = new ReadableStream<Uint8Array>({
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (!done) return controller.enqueue(value);
          onEnd();
          controller.close();
        } catch (error) {
          onEnd();
          controller.error(error);
        }
      },
      cancel: (reason) => reader.cancel(reason),
    });
    return new Response(watched, { status, statusText, headers });
  };
}
