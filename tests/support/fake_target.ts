import { HubError } from "../../src/core/error.ts";
import { QUIRKS } from "../../src/providers/quirks.ts";
import type { Target } from "../../src/providers/target.ts";
import type { UpstreamRequest, UpstreamResponse } from "../../src/providers/transport.ts";

/** An upstream's answer that a test makes while it is read. */
export interface FakeAnswer {
  readonly response: UpstreamResponse;
  /** The next read; text or bytes. */
  push(piece: string | Uint8Array): void;
  /** The body is whole. */
  end(): void;
  /** Someone has stopped it. */
  readonly cancelled: boolean;
  /** Reads that gave something. */
  readonly reads: number;
}

const encoder = new TextEncoder();

/** Makes an answer whose head has come. `endless` is read again and again when nothing else is there. */
export function createFakeAnswer(
  { status = 200, headers = {}, pieces = [], endless }: {
    status?: number;
    headers?: Record<string, string>;
    /** The whole body, when it is known. */
    pieces?: readonly string[];
    endless?: Uint8Array;
  } = {},
): FakeAnswer {
  const queue: (Uint8Array | null)[] = pieces.map((piece) => encoder.encode(piece));
  if (pieces.length > 0) queue.push(null);
  let waiting: PromiseWithResolvers<Uint8Array | null> | null = null;
  let cancelled = false;
  let reads = 0;
  const give = (piece: Uint8Array | null) => {
    if (waiting === null) return void queue.push(piece);
    waiting.resolve(piece);
    waiting = null;
  };
  return {
    response: {
      status,
      header: (name) => headers[name] ?? null,
      headers: Object.entries(headers),
      headersStartingWith: (prefixes) =>
        Object.entries(headers).filter(([name]) =>
          prefixes.some((prefix) => name.startsWith(prefix))
        ),
      read() {
        if (cancelled) return Promise.reject(new HubError("aborted", "stopped"));
        reads++;
        const piece = queue.shift();
        if (piece !== undefined) return Promise.resolve(piece);
        if (endless !== undefined) return Promise.resolve(endless);
        waiting = Promise.withResolvers();
        return waiting.promise;
      },
      cancel() {
        cancelled = true;
        waiting?.reject(new HubError("aborted", "stopped"));
        waiting = null;
      },
    },
    push: (piece) => give(typeof piece === "string" ? encoder.encode(piece) : piece),
    end: () => give(null),
    get cancelled() {
      return cancelled;
    },
    get reads() {
      return reads;
    },
  };
}

/** A target named `provider/model` whose requests `send` answers. Each timer is a second, total a minute. */
export function createFakeTarget(
  id: string,
  send: (request: UpstreamRequest) => UpstreamResponse | Promise<UpstreamResponse>,
  more: Partial<Target> = {},
): Target {
  const [provider = "", model = ""] = id.split("/");
  return {
    id,
    provider,
    model,
    endpoints: {
      chat: { url: "http://up/v1/chat/completions", send: async (request) => await send(request) },
    },
    fixedHeaders: [],
    quirks: QUIRKS["openai-compatible"],
    timeouts: { connectMs: 1000, firstTokenMs: 1000, inactivityMs: 1000, totalMs: 60_000 },
    maxRetries: 0,
    override: {},
    ...more,
  };
}
