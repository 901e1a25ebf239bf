import type { Clock } from "../../core/clock.ts";
import { type ByteSource, fromStream } from "../../http/byte_source.ts";
import type { Reply } from "../../http/reply.ts";
import { sseReply } from "../../http/sse_response.ts";

const encoder = new TextEncoder();

/** What is waited for, and how long. Whoever makes the answer hears by itself of a client that leaves. */
export interface Waiting {
  answer: Promise<Response>;
  waitMs: number;
  clock: Clock;
}

/** The answer, or a stream that it will come in when it is not there in time: silence this long looks like a lost server. */
export async function answerOrStream(waiting: Waiting): Promise<Response | Reply> {
  const { answer, waitMs, clock } = waiting;
  const late = Promise.withResolvers<null>();
  const timer = clock.setTimer(() => late.resolve(null), waitMs);
  try {
    const first = await Promise.race([answer, late.promise]);
    return first ?? sseReply(new LateAnswer(waiting), { clock, pingMs: waitMs });
  } finally {
    clock.clearTimer(timer);
  }
}

/** An answer that has not come yet, as events. */
class LateAnswer implements ByteSource {
  readonly #waiting: Waiting;
  #events: ByteSource | null = null;
  #done = false;

  constructor(waiting: Waiting) {
    this.#waiting = waiting;
  }

  async pull(): Promise<Uint8Array | null> {
    if (this.#done) return null;
    if (this.#events !== null) return await this.#events.pull();
    const response = await this.#waiting.answer;
    const { body } = response;
    if (body !== null && response.headers.get("content-type")?.startsWith("text/event-stream")) {
      this.#events = fromStream(body);
      return await this.#events.pull();
    }
    this.#done = true;
    const text = (await response.text()).replaceAll(/\r?\n/g, " ");
    return text === "" ? null : encoder.encode(`event: message\ndata: ${text}\n\n`);
  }

  cancel(reason: unknown): void {
    this.#events?.cancel(reason);
    this.#waiting.answer.catch(() => {/* nobody waits for it any more */});
  }
}
