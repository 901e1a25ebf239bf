import { HubError, toHubError } from "../../core/error.ts";
import { joinBytes } from "../../core/join_bytes.ts";
import { ATTEMPTS_HEADER, trailOfAnswer } from "../../router/attempt_trail.ts";
import type { Answer } from "../../router/open_answer.ts";
import type { ByteSource } from "../byte_source.ts";
import type { Call } from "../call.ts";
import { errorBody } from "../on_error.ts";

/** What the client sees of an answer: its bytes, and that it was left. */
export type ReadableAnswer = Pick<Answer, "read" | "cancel">;

const encoder = new TextEncoder();

/** Header fields of an answer: what the provider said that clients act on, and who was tried. */
export function answerHeaders(answer: Answer): Record<string, string> {
  const headers = answer.attempt.passedHeaders();
  headers[ATTEMPTS_HEADER] = trailOfAnswer(answer);
  return headers;
}

/** Header fields of an answer that is sent whole. */
export function wholeHeaders(answer: Answer): Record<string, string> {
  const headers = answerHeaders(answer);
  headers["x-loophub-target"] = toVisibleAscii(answer.attempt.target.id);
  return headers;
}

/** All bytes of an answer that is not streamed. */
export async function readWholeAnswer(answer: Pick<Answer, "read">): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  for (let bytes = await answer.read(); bytes !== null; bytes = await answer.read()) {
    pieces.push(bytes);
  }
  return joinBytes(pieces);
}

/** The text as a header can carry it: everything but visible ASCII, and the percent sign, percent-encoded (RFC 3986, 2.1). */
function toVisibleAscii(text: string): string {
  return text.toWellFormed().replace(/[^!-$&-~]/gu, encodeURIComponent);
}

/** The answer if it begins in time; null when the client must see something before. Rejects with what prevented it. */
export async function within<T>(
  opened: Promise<T>,
  call: Pick<Call, "clock">,
  ms: number,
): Promise<T | null> {
  if (ms === 0) return await opened;
  let timer: unknown;
  const late = new Promise<null>((resolve) => timer = call.clock.setTimer(() => resolve(null), ms));
  try {
    return await Promise.race([opened, late]);
  } finally {
    call.clock.clearTimer(timer);
  }
}

/** An error as a frame of a chat stream. */
export const chatErrorFrame = (error: HubError): string =>
  `data: ${JSON.stringify(errorBody(error))}\n\n`;

/** The provider's frames. A failure in mid-stream becomes an error frame, and then the connection breaks. */
export function passThrough(
  opened: Promise<ReadableAnswer>,
  toFrame: (error: HubError) => string = chatErrorFrame,
): ByteSource {
  let answer: ReadableAnswer | null = null;
  let failure: HubError | null = null;
  let gone = false;
  opened.catch(() => {});
  return {
    async pull() {
      if (failure !== null) throw failure;
      try {
        answer ??= await opened;
        return await answer.read();
      } catch (error) {
        failure = toHubError(error);
        return encoder.encode(toFrame(failure));
      }
    },
    cancel() {
      if (gone) return;
      gone = true;
      // An answer that nobody has read from yet is accounted too, and gives its place back.
      opened.then(
        (answer) => answer.cancel(new HubError("client_closed", "The client left")),
        () => {},
      );
    },
  };
}
