import { toAbortSignal } from "../../core/abort.ts";
import { HubError, toHubError } from "../../core/error.ts";
import type { Json } from "../../core/json.ts";
import { parseJsonInSteps } from "../../core/large_json/json_in_steps.ts";
import { type ByteSource, fromStream } from "../../http/byte_source.ts";
import type { Call } from "../../http/call.ts";
import { SSE_HEADERS } from "../../http/sse_response.ts";
import { bytesReply, emptyReply, jsonReply, Reply, streamReply } from "../../http/reply.ts";
import { canonicalHeader } from "../../mcp/param_headers.ts";
import { refuse, RPC } from "./read_message.ts";

/** Headers that the protocol reads. */
const READ = [
  "accept",
  "content-type",
  "last-event-id",
  "mcp-session-id",
  "mcp-protocol-version",
  "mcp-method",
  "mcp-name",
] as const;
/** Messages of one request, in revisions that have batches. */
const MAX_BATCH = 32;

/** A call as the protocol's library reads it. The body is given beside it. Throws when a header could be read in two ways. */
export function toWebRequest({ request, signal }: Call): Request {
  const headers = new Headers();
  for (const name of READ) {
    const value = request.header(name);
    if (value === null) continue;
    if (request.isRepeated(name)) {
      throw new HubError("invalid_request", `The request has two ${name} headers`);
    }
    // The library takes base64 in this one only as it is written canonically.
    headers.set(name, name === "mcp-name" ? canonicalHeader(value) ?? value : value);
  }
  return new Request("http://localhost/mcp", {
    method: request.method,
    headers,
    signal: toAbortSignal(signal),
  });
}

/** The message, or messages, of a call. Throws `invalid_json`, or `invalid_request` past the bounds. */
export async function readMessages(call: Call): Promise<Json> {
  const value = await parseJsonInSteps(await call.readBody());
  if (Array.isArray(value) && value.length > MAX_BATCH) {
    throw new HubError(
      "invalid_request",
      `The request has ${value.length} messages, wanted at most ${MAX_BATCH}`,
    );
  }
  return value;
}

/** An error that belongs to no message (JSON-RPC 2.0, 5.1). */
export function rpcError(
  status: number,
  { code, message }: { code: number; message: string },
): Reply {
  return jsonReply(refuse(code, message), { status });
}

/** The answer to a body that could not be read. Throws on what is no fault of the body's. */
export function unreadable(failure: unknown): Reply {
  const error = toHubError(failure);
  const { message, status } = error;
  if (error.code === "internal_error" || error.code === "client_closed") throw error;
  const code = error.code === "invalid_json" ? RPC.parseError : RPC.invalidRequest;
  return rpcError(status, { code, message });
}

/** A library's answer. `onEnd` is called once, when nothing more of it will be sent. */
export async function toReply(
  response: Response,
  { ends, onEnd }: { ends: AbortSignal | null; onEnd: () => void },
): Promise<Reply> {
  const { status, body } = response;
  const headers: Record<string, string> = {};
  for (const name of ["mcp-session-id", "allow"]) {
    const value = response.headers.get(name);
    if (value !== null) headers[name] = value;
  }
  const contentType = response.headers.get("content-type") ?? "application/json";
  if (body !== null && contentType.startsWith("text/event-stream")) {
    return streamReply(new WatchedSource(fromStream(body), { ends, onEnd }), {
      contentType,
      status,
      headers: { ...SSE_HEADERS, ...headers },
      flush: true,
    });
  }
  try {
    const bytes = new Uint8Array(await response.arrayBuffer());
    return bytes.length === 0
      ? emptyReply(status, headers)
      : bytesReply(bytes, { contentType, status, headers });
  } finally {
    onEnd();
  }
}

/** Tells of the end of a stream, and ends it when told to. */
class WatchedSource implements ByteSource {
  readonly #source: ByteSource;
  readonly #ends: AbortSignal | null;
  readonly #onEnd: () => void;
  #ended = false;
  #finish: ((bytes: null) => void) | null = null;

  constructor(
    source: ByteSource,
    { ends, onEnd }: { ends: AbortSignal | null; onEnd: () => void },
  ) {
    this.#source = source;
    this.#ends = ends;
    this.#onEnd = onEnd;
    ends?.addEventListener("abort", this, { once: true });
  }

  /** The stream is to end. */
  handleEvent(): void {
    if (this.#ended) return;
    this.#end();
    this.#source.cancel("ended");
    this.#finish?.(null);
  }

  async pull(): Promise<Uint8Array | null> {
    if (this.#ends?.aborted === true) {
      this.handleEvent();
      return null;
    }
    const pulled = this.#source.pull();
    try {
      const bytes = this.#ends === null ? await pulled : await this.#untilEnd(pulled);
      if (bytes === null) this.#end();
      return bytes;
    } catch (error) {
      this.#end();
      throw error;
    }
  }

  cancel(reason: unknown): void {
    this.#end();
    this.#source.cancel(reason);
  }

  #untilEnd(pulled: Promise<Uint8Array | null>): Promise<Uint8Array | null> {
    return new Promise((resolve, reject) => {
      this.#finish = resolve;
      pulled.then(resolve, reject);
    });
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#ends?.removeEventListener("abort", this);
    this.#onEnd();
  }
}
