const LINE_FEED = 10;

/**
 * Fetches so that no line of an answer is longer than this, neither a frame of a stream nor a body of one line, and
 * nothing outlives `ended`: the protocol's package leaves a stream open that it took up again for a call that is over.
 */
export function createBoundedFetch(
  maxLineBytes: number,
  ended: AbortSignal,
): (url: string | URL, init?: RequestInit) => Promise<Response> {
  return async (url, init) => {
    const given = init?.signal;
    const signal = given === undefined || given === null ? ended : AbortSignal.any([given, ended]);
    const answer = await fetch(url, { ...init, signal });
    if (answer.body === null) return answer;
    const { status, statusText, headers } = answer;
    const body = answer.body.pipeThrough(new TransformStream(new LineBound(maxLineBytes, answer)));
    return new Response(body, { status, statusText, headers });
  };
}

class LineBound implements Transformer<Uint8Array, Uint8Array> {
  readonly #most: number;
  /** Whose signal ends the stream: were it collected, the connection would stay open for ever. */
  readonly answer: Response;
  #bytes = 0;

  constructor(most: number, answer: Response) {
    this.#most = most;
    this.answer = answer;
  }

  transform(
    chunk: Uint8Array,
    controller: TransformStreamDefaultController<Uint8Array>,
  ): void {
    const end = chunk.lastIndexOf(LINE_FEED);
    this.#bytes = end < 0 ? this.#bytes + chunk.length : chunk.length - end - 1;
    if (this.#bytes > this.#most) {
      throw new Error(`the server sent a line of more than ${this.#most} bytes`);
    }
    controller.enqueue(chunk);
  }
}
