import { Buffer } from "node:buffer";
import type { Socket } from "node:net";
import type { JsonObject } from "../../src/core/json.ts";
import { listAt } from "./at.ts";

/** A message of a chat, as models read it. */
export interface SentMessage {
  role: string;
  content: string;
}

/** A request as it came over the wire. */
export interface RecordedRequest {
  method: string;
  /** Request target, query included. */
  path: string;
  /** As sent: order, case and repetitions kept. */
  headers: [string, string][];
  /** First value of a header, name in lower case. */
  header(name: string): string | null;
  /** Body without its framing. */
  body: Uint8Array;
  readonly text: string;
  /** The body parsed; throws when it is no JSON object. */
  readonly json: JsonObject;
  /** The messages of a chat; none in other bodies. */
  readonly messages: SentMessage[];
  /** Number of the connection it came on, from 0. */
  connection: number;
  /** `performance.now()` when it was complete. */
  atMs: number;
  /** False when the body was deliberately not read. */
  whole: boolean;
}

interface NextOptions {
  connection: number;
  onStart: () => void;
  skipBody: (request: RecordedRequest) => boolean;
}

const CRLF = "\r\n";

/** Reads requests off one socket, one after another. Keeps reading all the time, so that a close is seen at once. */
export class RequestReader {
  readonly #socket: Socket;
  #pieces: Uint8Array[] = [];
  #length = 0;
  #wake: (() => void) | null = null;
  #stopped = false;

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (piece: Uint8Array) => {
      this.#pieces.push(piece);
      this.#length += piece.length;
      this.#wake?.();
    });
  }

  /** The next request, or null when the connection has ended. */
  async next({ connection, onStart, skipBody }: NextOptions): Promise<RecordedRequest | null> {
    let end = -1;
    while ((end = this.#find(CRLF + CRLF)) < 0) {
      if (this.#length > 0) onStart();
      if (!await this.#more()) return null;
    }
    onStart();
    const [start = "", ...lines] = this.#take(end + 4).trimEnd().split(CRLF);
    const [method = "", path = ""] = start.split(" ");
    const headers = lines.map((line): [string, string] => {
      const colon = line.indexOf(":");
      return [line.slice(0, colon), line.slice(colon + 1).trim()];
    });
    const header = (name: string) =>
      headers.find(([candidate]) => candidate.toLowerCase() === name)?.[1] ?? null;
    const request: RecordedRequest = {
      method,
      path,
      headers,
      header,
      body: new Uint8Array(0),
      get text() {
        return new TextDecoder().decode(this.body);
      },
      get json() {
        return JSON.parse(this.text);
      },
      get messages() {
        return listAt(this.json, "messages") as unknown as SentMessage[];
      },
      connection,
      atMs: performance.now(),
      whole: true,
    };
    if (skipBody(request)) {
      this.#socket.pause();
      request.whole = false;
      return request;
    }
    const body = header("transfer-encoding")?.toLowerCase() === "chunked"
      ? await this.#chunks()
      : await this.#bytes(Number(header("content-length") ?? 0));
    if (body === null) return null;
    request.body = body;
    request.atMs = performance.now();
    return request;
  }

  /** Ends a pending `next` with null. */
  stop(): void {
    this.#stopped = true;
    this.#wake?.();
  }

  async #chunks(): Promise<Uint8Array | null> {
    const parts: Uint8Array[] = [];
    for (;;) {
      let end = -1;
      while ((end = this.#find(CRLF)) < 0) if (!await this.#more()) return null;
      const size = parseInt(this.#take(end + 2), 16);
      const part = await this.#bytes(size + 2);
      if (part === null) return null;
      if (size === 0) return Buffer.concat(parts);
      parts.push(part.subarray(0, size));
    }
  }

  async #bytes(length: number): Promise<Uint8Array | null> {
    while (this.#length < length) if (!await this.#more()) return null;
    return this.#cut(length);
  }

  #joined(): Buffer {
    const whole = Buffer.concat(this.#pieces);
    this.#pieces = [whole];
    return whole;
  }

  #cut(length: number): Uint8Array {
    const whole = this.#joined();
    this.#pieces = [whole.subarray(length)];
    this.#length -= length;
    return new Uint8Array(whole.subarray(0, length));
  }

  #find(text: string): number {
    return this.#joined().indexOf(text);
  }

  #take(length: number): string {
    return new TextDecoder("latin1").decode(this.#cut(length));
  }

  async #more(): Promise<boolean> {
    if (this.#stopped) return false;
    const before = this.#length;
    await new Promise<void>((resolve) => this.#wake = resolve);
    this.#wake = null;
    return this.#length > before;
  }
}
