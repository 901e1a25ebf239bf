import { HubError } from "../../core/error.ts";
import type { HubEvent } from "../../core/event.ts";
import type { LiveEvent } from "../../run/broadcast.ts";
import type { AiSdkLevel } from "../../wire/ai_sdk_chunk.ts";
import { type AiSdkRenderer, createAiSdkRenderer } from "../../wire/ai_sdk_stream.ts";
import { DONE_FRAME } from "../../wire/ui_stream.ts";
import type { ByteSource } from "../byte_source.ts";

/** Events of a run as the routes get them. */
export type RunEvents = AsyncGenerator<readonly LiveEvent[], boolean, void>;

/** What one step of them gives. */
export type RunPage = IteratorResult<readonly LiveEvent[], boolean>;

/** A run as the hub's own stream: frames that were encoded once for all readers. `first` is what was taken of them. */
export function uiSource(events: RunEvents, first?: RunPage): ByteSource {
  return toSource(events, (live) => live.bytes, { first });
}

/** How a run is shown to AI SDK clients. */
export interface AiSdkSourceOptions {
  level?: AiSdkLevel;
  /** The number of the last event that the client has of the message; 0 when it has none of it. */
  has?: number;
  /** Tells the event behind which the stream begins, as a message of its own whose id is `messageId`. */
  startsBehind?(event: HubEvent): boolean;
  messageId?: string;
}

/**
 * A run as a stream for AI SDK clients. Events that the client has are read, and not sent again. Events that end without
 * a `finish` are those of a run that waits for people: the stream ends as these clients expect then.
 */
export function aiSdkSource(
  events: RunEvents,
  { has = 0, startsBehind, messageId, ...options }: AiSdkSourceOptions = {},
): ByteSource {
  const renderer: AiSdkRenderer = createAiSdkRenderer(options);
  let last = 0;
  let isBehind = startsBehind === undefined;
  let isResumed = has === 0 && isBehind;
  const resume = (): Uint8Array => {
    if (isResumed) return EMPTY;
    isResumed = true;
    return renderer.resume(messageId);
  };
  const render = ({ event, seq }: LiveEvent): Uint8Array => {
    last = seq ?? last;
    if ((last <= has || !isBehind) && event.type !== "finish") {
      renderer.toChunks(event);
      isBehind ||= startsBehind?.(event) ?? true;
      return EMPTY;
    }
    return concat([resume(), renderer.render(event)]);
  };
  return toSource(events, render, { end: () => concat([resume(), renderer.pause(last)]) });
}

const EMPTY = new Uint8Array();

function toSource(
  events: RunEvents,
  render: (event: LiveEvent) => Uint8Array,
  { first, end = () => EMPTY }: { first?: RunPage | undefined; end?(): Uint8Array } = {},
): ByteSource {
  let done = false;
  let taken = first;
  return {
    async pull() {
      while (!done) {
        const next = taken ?? await events.next();
        taken = undefined;
        if (next.done === true) {
          done = true;
          // Otherwise the run went elsewhere: the reader must see a broken stream and come back.
          if (next.value) return concat([end(), DONE_FRAME]);
          throw new HubError("lease_lost", "The run goes on elsewhere: follow it again");
        }
        const frames = next.value.map(render);
        if (next.value.at(-1)?.event.type === "finish") {
          done = true;
          frames.push(DONE_FRAME);
          await events.return(true);
        }
        const bytes = concat(frames);
        if (bytes.length > 0) return bytes;
      }
      return null;
    },
    cancel() {
      done = true;
      void events.return(false);
    },
  };
}

function concat(frames: readonly Uint8Array[]): Uint8Array {
  if (frames.length === 1 && frames[0] !== undefined) return frames[0];
  const whole = new Uint8Array(frames.reduce((sum, frame) => sum + frame.length, 0));
  let at = 0;
  for (const frame of frames) {
    whole.set(frame, at);
    at += frame.length;
  }
  return whole;
}
