/**
 * A body that is made while it is sent. Cheaper than a `ReadableStream` (no queue, no controller, no reader), and
 * driven by whoever writes: nothing is pulled while the client does not read.
 */
export interface ByteSource {
  /**
   * The next bytes; null when the body is whole. Not called again before it has settled, nor after null.
   * A rejection breaks the connection: a body that fails must never look like one that ended (RFC 9112, 8).
   */
  pull(): Promise<Uint8Array | null>;
  /** The client left or the server stops; at most once, never after null or a rejection. A pending `pull` may settle in any way. */
  cancel(reason: unknown): void;
}

/** Reads a web stream as a source. */
export function fromStream(stream: ReadableStream<Uint8Array>): ByteSource {
  const reader = stream.getReader();
  return {
    async pull() {
      const { done, value } = await reader.read();
      return done ? null : value;
    },
    cancel(reason) {
      reader.cancel(reason).catch(
        () => {/* the stream is given up; its own end no longer matters */},
      );
    },
  };
}

/** The source as a web stream without a queue of its own: it pulls when it is read. */
export function toStream(source: ByteSource): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new ReadableStream({
    async pull(controller) {
      const bytes = await source.pull();
      if (bytes === null) controller.close();
      else controller.enqueue(new Uint8Array(bytes));
    },
    cancel: (reason) => source.cancel(reason),
  }, { highWaterMark: 0 });
}
