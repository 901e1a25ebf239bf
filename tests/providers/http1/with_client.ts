import type { Clock } from "../../../src/core/clock.ts";
import { HubError } from "../../../src/core/error.ts";
import {
  createHttpClient,
  type HttpClient,
  type HttpClientOptions,
} from "../../../src/providers/http1/client.ts";
import type { UpstreamRequest, UpstreamResponse } from "../../../src/providers/transport.ts";
import { settle } from "../../support/fake_clock.ts";
import { type ScriptedUpstream, startScriptedUpstream } from "../../support/scripted_upstream.ts";

/** The runtime's own time, for tests that measure it or bind real sockets. */
export const realClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  coarse: () => performance.now(),
  setTimer: (callback, delayMs) => setTimeout(callback, delayMs),
  clearTimer: (timer) => clearTimeout(timer as number),
};

/** A client and an upstream for one test, both gone afterwards. */
export async function withClient(
  use: (upstream: ScriptedUpstream, client: HttpClient) => Promise<void>,
  options: Partial<HttpClientOptions> = {},
): Promise<void> {
  const upstream = await startScriptedUpstream();
  const client = createHttpClient({ clock: realClock, ...options });
  try {
    await use(upstream, client);
  } finally {
    client.close();
    await upstream.stop();
  }
}

/** A POST to `url` that nobody stops. */
export function post(url: string, change: Partial<UpstreamRequest> = {}): UpstreamRequest {
  return {
    method: "POST",
    url,
    headers: [],
    body: new TextEncoder().encode('{"model":"m"}'),
    signal: new AbortController().signal,
    connectTimeoutMs: 5000,
    ...change,
  };
}

/** The whole body as text. */
export async function textOf(response: UpstreamResponse): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for (let piece = await response.read(); piece !== null; piece = await response.read()) {
    text += decoder.decode(piece, { stream: true });
  }
  return text + decoder.decode();
}

/** The error a promise rejects with, which must be a `HubError`. */
export async function errorOf(promise: Promise<unknown>): Promise<HubError> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof HubError) return error;
    throw error;
  }
  throw new Error("It resolved where a HubError was wanted");
}

/** Lets the event loop turn until the condition holds; fails after half a minute. */
export async function eventually(condition: () => boolean): Promise<void> {
  const startMs = performance.now();
  while (!condition()) {
    if (performance.now() - startMs > 30_000) throw new Error(`It never came to ${condition}`);
    await settle();
  }
}
