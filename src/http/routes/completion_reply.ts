import { HubError, toHubError } from "../../core/error.ts";
import { joinBytes } from "../../core/join_bytes.ts";
import type { Target } from "../../providers/target.ts";
import { ATTEMPTS_HEADER, trailOfAnswer } from "../../router/attempt_trail.ts";
import type { Answer } from "../../router/open_answer.ts";
import type { ByteSource } from "../byte_source.ts";
import type { Call } from "../call.ts";
import { errorBody } from "../on_error.ts";

/** What the client sees of an answer: its bytes, and that it was left. */
export type ReadableAnswer = Pick<Answer, "read" | "cancel">;

const encoder = new TextEncoder();

/** An answer that the hub has something to say of. */
export type NotedAnswer = Answer & {
  /** Further header fields. */
  notes?: Readonly<Record<string, string>>;
};

/** An answer as clients get it, whoever made it. */
export interface ShownAnswer extends ReadableAnswer {
  /** Who made it. */
  readonly from: Pick<Target, "id" | "provider" | "model" | "override">;
  /** What the hub has to say of it. */
  readonly notes: Readonly<Record<string, string>>;
  /** Header fields: what clients act on. */
  headers(): Record<string, string>;
  /** Whether it has said how it ends; known when it is read. */
  isWhole(): boolean;
}

/** A provider's answer, with who was tried. */
export function show(answer: NotedAnswer): ShownAnswer {
  const { attempt, notes = {} } = answer;
  return {
    from: attempt.target,
    notes,
    headers: () => ({
      ...attempt.passedHeaders(),
      [ATTEMPTS_HEADER]: trailOfAnswer(answer),
      ...notes,
    }),
    isWhole: () => !attempt.stream || attempt.answerFacts.finished,
    read: () => answer.read(),
    cancel: (reason) => answer.cancel(reason),
  };
}

/** Header fields of an answer that is sent whole. */
export function wholeHeaders(answer: ShownAnswer): Record<string, string> {
  return { ...answer.headers(), "x-loophub-target": toVisibleAscii(answer.from.id) };
}

/** Tells a failure in mid-stream in the words of a dialect. */
export interface FailureTeller {
  /** Bytes have gone to the client. */
  shown(bytes: Uint8Array): void;
  tell(failure: HubError): Uint8Array;
  /** Whether the stream may end as usual then, because every client of the dialect reads the failure as its end. */
  endsWith?(failure: HubError): boolean;
}

/** A teller that makes one frame of a failure, whatever was shown before. */
export function tellInFrame(toFrame: (failure: HubError) => string): FailureTeller {
  return { shown() {}, tell: (failure) => encoder.encode(toFrame(failure)) };
}

const CHAT_FAILURES = tellInFrame((failure) => `data: ${JSON.stringify(errorBody(failure))}\n\n`);

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

/** The provider's frames. A failure in mid-stream is told, and then the connection breaks unless the teller ends it. */
export function passThrough(
  opened: Promise<ReadableAnswer>,
  failures: FailureTeller = CHAT_FAILURES,
): ByteSource {
  let answer: ReadableAnswer | null = null;
  let failure: HubError | null = null;
  let gone = false;
  opened.catch(() => {});
  return {
    async pull() {
      if (failure !== null) {
        if (failures.endsWith?.(failure) === true) return null;
        throw failure;
      }
      try {
        answer ??= await opened;
        const bytes = await answer.read();
        if (bytes !== null) failures.shown(bytes);
        return bytes;
      } catch (error) {
        failure = toHubError(error);
        return failures.tell(failure);
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
