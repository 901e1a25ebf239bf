import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/server";
import { joinBytes } from "../../core/join_bytes.ts";
import { readMessage, type Refusal, refuse, RPC } from "./read_message.ts";

/** Longest line, in bytes. */
const MAX_LINE_BYTES = 16 * 1024 * 1024;
const NEWLINE = 0x0a;
const RETURN = 0x0d;
const encoder = new TextEncoder();

/** The streams of a client. */
export interface Lines {
  input: ReadableStream<Uint8Array>;
  output: WritableStream<Uint8Array>;
  /** Whether it may be written to after the end of its input, until it is closed. */
  outlivesInput?: boolean;
}

/** Messages as lines of JSON, over any pair of streams; ends with either of them. */
export class LineTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  /** Resolves when it has ended. Never rejects. */
  readonly closed: Promise<void>;
  /** Resolves when no more messages come. Never rejects. */
  readonly inputEnded: Promise<void>;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  readonly #outlivesInput: boolean;
  readonly #end = Promise.withResolvers<void>();
  readonly #inputEnd = Promise.withResolvers<void>();
  #isClosed = false;
  /** Of the line that is not whole yet. */
  #pieces: Uint8Array[] = [];
  #size = 0;

  constructor({ input, output, outlivesInput = false }: Lines) {
    this.#reader = input.getReader();
    this.#writer = output.getWriter();
    this.#outlivesInput = outlivesInput;
    this.closed = this.#end.promise;
    this.inputEnded = this.#inputEnd.promise;
  }

  start(): Promise<void> {
    void this.#read();
    return Promise.resolve();
  }

  async send(message: JSONRPCMessage): Promise<void> {
    await this.#write(message);
  }

  close(): Promise<void> {
    if (this.#isClosed) return Promise.resolve();
    this.#isClosed = true;
    this.#pieces = [];
    this.#reader.cancel().catch(() => {/* it has ended by itself */});
    this.#inputEnd.resolve();
    this.#end.resolve();
    this.onclose?.();
    return Promise.resolve();
  }

  async #read(): Promise<void> {
    try {
      for (;;) {
        const { done, value } = await this.#reader.read();
        if (done || this.#isClosed) break;
        await this.#take(value);
      }
    } catch (error) {
      this.onerror?.(error instanceof Error ? error : new Error(String(error)));
    }
    if (this.#outlivesInput && this.#size > 0) await this.#endLine();
    this.#inputEnd.resolve();
    if (!this.#outlivesInput) await this.close();
  }

  async #take(bytes: Uint8Array): Promise<void> {
    let from = 0;
    for (;;) {
      const end = bytes.indexOf(NEWLINE, from);
      const piece = bytes.subarray(from, end === -1 ? undefined : end);
      this.#size += piece.length;
      // A line that is too long is read to its end, and dropped.
      if (this.#size <= MAX_LINE_BYTES) this.#pieces.push(end === -1 ? piece.slice() : piece);
      else this.#pieces = [];
      if (end === -1) return;
      await this.#endLine();
      from = end + 1;
    }
  }

  async #endLine(): Promise<void> {
    const [size, line] = [this.#size, joinBytes(this.#pieces)];
    this.#size = 0;
    this.#pieces = [];
    if (size > MAX_LINE_BYTES) {
      return this.#answer(
        refuse(
          RPC.invalidRequest,
          `The message has ${size} bytes, wanted at most ${MAX_LINE_BYTES}`,
        ),
      );
    }
    if (size === 0 || (size === 1 && line[0] === RETURN)) return;
    const read = await readMessage(line);
    if ("message" in read) this.onmessage?.(read.message);
    else this.#answer(read.refusal);
  }

  #answer(refusal: Refusal): void {
    this.#write(refusal).catch(() => {/* told by the end */});
  }

  async #write(value: object): Promise<void> {
    if (this.#isClosed) throw new Error("The connection has ended");
    try {
      await this.#writer.write(encoder.encode(`${JSON.stringify(value)}\n`));
    } catch (error) {
      await this.close();
      throw error;
    }
  }
}
