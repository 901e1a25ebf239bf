import type { Socket } from "node:net";
import type { RecordedRequest } from "./recorded_request.ts";

/** A piece of a scripted body: bytes (one write, and one chunk when chunked), a pause, or a promise to wait for. */
export type Frame = string | Uint8Array | { delayMs: number } | { wait: Promise<unknown> };

/**
 * What happens after the last byte. `clean`: the framing is completed (and the connection kept, unless `keepAlive` is
 * false or only closing can end the body). `cut`: FIN without completing it. `reset`: RST. `stall`: nothing more until
 * the client goes.
 */
export type ReplyEnd = "clean" | "cut" | "reset" | "stall";

/** One answer, as data. */
export interface Reply {
  /** Default 200. */
  status?: number;
  headers?: Record<string, string> | [string, string][];
  /** Whole body; an object is sent as JSON. Framed by content-length unless `chunked`. */
  body?: string | Uint8Array | object;
  /** Body in pieces; chunked unless `chunked: false`, which without `contentLength` means "until the connection closes". */
  frames?: Iterable<Frame> | AsyncIterable<Frame>;
  chunked?: boolean;
  /** Default `clean`. */
  end?: ReplyEnd;
  /** Sent as content-length, also when it is a lie. */
  contentLength?: number;
  /** Waits before the first byte of the answer. */
  before?: Frame[];
  /** These exact bytes instead of a status line, headers and framing; `frames` and `body` are then ignored. */
  raw?: string | Uint8Array | Frame[];
  /** Default true; false sends `connection: close` and closes after a clean end. */
  keepAlive?: boolean;
}

const REASONS: Record<number, string> = { 200: "OK", 400: "Bad Request", 429: "Too Many Requests" };
const encoder = new TextEncoder();
const toBytes = (piece: string | Uint8Array) =>
  typeof piece === "string" ? encoder.encode(piece) : piece;

/** What `sendReply` works with. */
export interface Sending {
  socket: Socket;
  reply: Reply;
  request: RecordedRequest;
  gone: AbortSignal;
}

/** What is to become of the connection. */
export type Outcome = "keep" | "close" | "reset" | "gone";

/** Plays one reply on a socket, up to the point where it ends or the client goes. */
export async function sendReply({ socket, reply, request, gone }: Sending): Promise<Outcome> {
  const write = (bytes: Uint8Array) => writeAll(socket, bytes, gone);
  const play = async (frames: Iterable<Frame> | AsyncIterable<Frame>, chunked: boolean) => {
    for await (const frame of frames) {
      if (gone.aborted) return;
      if (typeof frame === "string" || frame instanceof Uint8Array) {
        const bytes = toBytes(frame);
        if (chunked && bytes.length > 0) await write(asChunk(bytes));
        else await write(bytes);
      } else await pause(frame, gone);
    }
  };
  await play(reply.before ?? [], false);
  const end = reply.end ?? "clean";
  let last = "";
  let closes = reply.keepAlive === false || request.header("connection") === "close";
  if (reply.raw !== undefined) {
    const raw = typeof reply.raw === "string" || reply.raw instanceof Uint8Array
      ? [reply.raw]
      : reply.raw;
    await play(raw, false);
  } else {
    const head = replyHead(reply);
    if (head.untilClose) closes = true;
    if (closes) head.lines.push("connection: close");
    await write(toBytes(`${head.lines.join("\r\n")}\r\n\r\n`));
    if (request.method !== "HEAD") {
      await play(head.frames, head.chunked);
      if (head.chunked) last = "0\r\n\r\n";
    }
  }
  if (end === "clean" && last !== "") await write(toBytes(last));
  if (end === "stall") await pause({ wait: new Promise(() => {}) }, gone);
  if (gone.aborted) return "gone";
  if (end === "reset") return "reset";
  return end === "cut" || closes || !request.whole ? "close" : "keep";
}

function replyHead(reply: Reply) {
  const status = reply.status ?? 200;
  const lines = [`HTTP/1.1 ${status} ${REASONS[status] ?? "Status"}`];
  const headers = Array.isArray(reply.headers)
    ? reply.headers
    : Object.entries(reply.headers ?? {});
  for (const [name, value] of headers) lines.push(`${name}: ${value}`);
  const has = (wanted: string) => headers.some(([name]) => name.toLowerCase() === wanted);
  const whole = reply.frames === undefined;
  let frames = reply.frames ?? [];
  if (reply.frames === undefined) {
    const { body = "" } = reply;
    const plain = typeof body === "string" || body instanceof Uint8Array;
    if (!plain && !has("content-type")) lines.push("content-type: application/json");
    frames = [plain ? toBytes(body) : toBytes(JSON.stringify(body))];
  }
  const chunked = reply.chunked ?? (!whole && reply.contentLength === undefined);
  let length = reply.contentLength;
  if (whole && !chunked && length === undefined && reply.chunked === undefined) {
    for (const frame of frames as Uint8Array[]) length = frame.length;
  }
  if (chunked) lines.push("transfer-encoding: chunked");
  if (length !== undefined) lines.push(`content-length: ${length}`);
  return { lines, frames, chunked, untilClose: !chunked && length === undefined };
}

function asChunk(bytes: Uint8Array): Uint8Array {
  const head = encoder.encode(`${bytes.length.toString(16)}\r\n`);
  const chunk = new Uint8Array(head.length + bytes.length + 2);
  chunk.set(head);
  chunk.set(bytes, head.length);
  chunk.set([13, 10], head.length + bytes.length);
  return chunk;
}

function pause(frame: { delayMs: number } | { wait: Promise<unknown> }, gone: AbortSignal) {
  return new Promise<void>((resolve) => {
    if (gone.aborted) return resolve();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const finish = () => {
      clearTimeout(timer);
      gone.removeEventListener("abort", finish);
      resolve();
    };
    gone.addEventListener("abort", finish);
    if ("delayMs" in frame) timer = setTimeout(finish, frame.delayMs);
    else frame.wait.then(finish, finish);
  });
}

function writeAll(socket: Socket, bytes: Uint8Array, gone: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (gone.aborted || bytes.length === 0) return resolve();
    const finish = () => {
      gone.removeEventListener("abort", finish);
      resolve();
    };
    gone.addEventListener("abort", finish);
    socket.write(bytes, finish);
  });
}
