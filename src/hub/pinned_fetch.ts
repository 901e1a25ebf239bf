import type { Clock } from "../core/clock.ts";
import { CONNECTION_HEADERS } from "../core/connection_headers.ts";
import type { PinnedFetch } from "../mcp/oauth/guarded_fetch.ts";
import { createHttpClient } from "../providers/http1/client.ts";
import type { Connect } from "../providers/http1/dial.ts";
import { connectToAny } from "../providers/http1/guarded_connect.ts";
import type { UpstreamMethod, UpstreamResponse } from "../providers/transport.ts";

const BODILESS = new Set([204, 205, 304]);
const CONNECT_MS = 10_000;

/**
 * A fetch that connects to the addresses that it is told, whatever the name stands for by then, and keeps no connection.
 * Without addresses it is the runtime's.
 */
export function createPinnedFetch(
  { clock, connect }: { clock: Clock; connect: Connect },
): PinnedFetch {
  return async (url, init, addresses) => {
    if (addresses === null) return await fetch(url, init);
    const request = new Request(url, init);
    const client = createHttpClient({
      clock,
      connect: (to) => connectToAny(addresses, (address) => connect({ ...to, address }), to.signal),
    });
    try {
      const body = new Uint8Array(await request.arrayBuffer());
      const answer = await client.send({
        method: request.method as UpstreamMethod,
        url: request.url,
        headers: [...request.headers].filter(([name]) => !CONNECTION_HEADERS.has(name)),
        body: request.body === null ? null : body,
        once: true,
        signal: request.signal,
        connectTimeoutMs: CONNECT_MS,
      });
      return toResponse(answer, client);
    } catch (error) {
      client.close();
      throw new TypeError("The address did not answer", { cause: error });
    }
  };
}

function toResponse(answer: UpstreamResponse, client: { close(): void }): Response {
  const { status } = answer;
  const headers = answer.headers.filter(([name]) => !/^content-(encoding|length)$/.test(name));
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const bytes = await answer.read();
        if (bytes !== null) return controller.enqueue(bytes);
        client.close();
        controller.close();
      } catch (error) {
        client.close();
        controller.error(new TypeError("The answer broke off", { cause: error }));
      }
    },
    cancel() {
      answer.cancel();
      client.close();
    },
  });
  if (!BODILESS.has(status)) return new Response(stream, { status, headers });
  client.close();
  return new Response(null, { status, headers });
}
