import type { HubEvent } from "../core/event.ts";
import { encodeSseComment, encodeSseFrame } from "../core/sse.ts";

/** First bytes of every stream: the request was accepted. These frames are shared; never hand them to a byte stream, which takes buffers away. */
export const OPEN_FRAME: Uint8Array = encodeSseComment("open");
/** Sent while nothing else is, so that proxies between keep the connection. */
export const PING_FRAME: Uint8Array = encodeSseComment("ping");
/** Sent after the frame of `finish`: the stream is whole. */
export const DONE_FRAME: Uint8Array = encodeSseFrame({ data: "[DONE]" });

/** Headers of a hub stream. */
export const UI_STREAM_HEADERS: Readonly<Record<string, string>> = Object.freeze({
  "content-type": "text/event-stream",
  "cache-control": "no-cache",
  "x-accel-buffering": "no",
});

/**
 * One event in the hub's own vocabulary as an SSE frame; `seq` is null for transient events, which have no id. The bytes
 * are the same for every subscriber, so an event is rendered once. What providers want back with reasoning stays inside.
 */
export function renderUiEvent(event: HubEvent, seq: number | null): Uint8Array {
  const shown = event.type === "reasoning-end" ? { type: event.type, id: event.id } : event;
  const data = JSON.stringify(shown);
  return encodeSseFrame(seq === null ? { data } : { id: seq, data });
}
