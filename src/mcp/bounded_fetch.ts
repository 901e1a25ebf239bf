import { joinBytes } from "../core/join_bytes.ts";
import type { JsonShape } from "../core/large_json/json_shape.ts";
import { createMessageShape, ENDS, refusalOf } from "./message_bounds.ts";

const LINE_FEED = 10;
const RETURN = 13;

/**
 * Fetches so that no message of an answer is longer than this or nested deeper than a message may be, neither an event of
 * a stream nor a whole body, and nothing outlives `ended`: the protocol's package leaves a stream open that it took up again for a call that is over.
 */
export function createBoundedFetch(
  maxBytes: number,
  ended: AbortSignal,
): (url: string | URL, init?: RequestInit) => Promise<Response> {
  return async (url, init) => {
    const given = init?.signal;
    const signal = given === undefined || given === null ? ended : AbortSignal.any([given, ended]);
    const answer = await fetch(url, { ...init, signal });
    if (answer.body === null) return answer;
    const { status, statusText, headers } = answer;
    const isStream = (headers.get("content-type") ?? "").startsWith("text/event-stream");
    const bound = new MessageBound(maxBytes, { isStream, answer });
    const body = answer.body.pipeThrough(new TransformStream(bound));
    return new Response(body, { status, statusText, headers });
  };
}

class MessageBound implements Transformer<Uint8Array, Uint8Array> {
  readonly #most: number;
  readonly #isStream: boolean;
  /** Whose signal ends the stream: were it collected, the connection would stay open for ever. */
  readonly answer: Response;
  readonly #shape: JsonShape = createMessageShape();
  #bytes = 0;
  /** The event that comes: it is given on when it is whole. */
  #held: Uint8Array[] = [];
  /** Why the event is not given on. */
  #problem: unknown = null;
  #isLineEmpty = false;

  constructor(most: number, { isStream, answer }: { isStream: boolean; answer: Response }) {
    this.#most = most;
    this.#isStream = isStream;
    this.answer = answer;
  }

  transform(
    chunk: Uint8Array,
    controller: TransformStreamDefaultController<Uint8Array>,
  ): void {
    if (this.#isStream) return this.#takeEvents(chunk, controller);
    this.#count(chunk);
    this.#shape.push(chunk);
    controller.enqueue(chunk);
  }

  flush(controller: TransformStreamDefaultController<Uint8Array>): void {
    for (const piece of this.#held) controller.enqueue(piece);
  }

  #count({ length }: Uint8Array): void {
    this.#bytes += length;
    if (this.#bytes > this.#most) {
      throw new Error(`the server sent a message of more than ${this.#most} bytes`);
    }
  }

  /** An empty line ends an event. */
  #takeEvents(
    chunk: Uint8Array,
    controller: TransformStreamDefaultController<Uint8Array>,
  ): void {
    let from = 0;
    for (let at = chunk.indexOf(LINE_FEED); at !== -1; at = chunk.indexOf(LINE_FEED, at + 1)) {
      const isEmpty = at === 0 || at === 1 && chunk[0] === RETURN
        ? this.#isLineEmpty
        : chunk[at - 1] === LINE_FEED ||
          chunk[at - 1] === RETURN && chunk[at - 2] === LINE_FEED;
      if (!isEmpty) continue;
      this.#take(chunk.subarray(from, at + 1));
      this.#endEvent(controller);
      from = at + 1;
    }
    this.#take(chunk.subarray(from));
    const end = chunk.length - 1;
    this.#isLineEmpty = chunk[end] === LINE_FEED ||
      chunk[end] === RETURN && (end === 0 ? this.#isLineEmpty : chunk[end - 1] === LINE_FEED);
  }

  #take(piece: Uint8Array): void {
    this.#count(piece);
    if (piece.length > 0) this.#held.push(piece);
    if (this.#problem !== null) return;
    try {
      this.#shape.push(piece);
    } catch (error) {
      this.#problem = error;
    }
  }

  /** A message past a bound becomes an error of its call, so that the others of the stream are not lost with it. */
  #endEvent(controller: TransformStreamDefaultController<Uint8Array>): void {
    if (this.#problem === null) this.flush(controller);
    else {
      const event = joinBytes(this.#held);
      const read = (from: number, to?: number) =>
        new TextDecoder().decode(event.subarray(from, to));
      const refusal = refusalOf({ start: read(0, ENDS), end: read(-ENDS) }, this.#problem);
      if (refusal === null) throw this.#problem;
      const text = `event: message\ndata: ${JSON.stringify(refusal)}\n\n`;
      controller.enqueue(new TextEncoder().encode(text));
    }
    this.#held = [];
    this.#problem = null;
    this.#bytes = 0;
    this.#shape.reset();
  }
}
