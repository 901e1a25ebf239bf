import { toHubError } from "../../core/error.ts";
import type { Answer } from "../../router/open_answer.ts";
import type { Read } from "../../wire/translated_events.ts";

/** An answer in the words of another dialect; what cannot be said in them stops the provider. */
export function translatedAnswer(answer: Answer, read: Read): Answer {
  return {
    ...answer,
    async read() {
      try {
        return await read();
      } catch (error) {
        const failure = toHubError(error);
        answer.cancel(failure);
        throw failure;
      }
    },
  };
}

/** Gives what is made of the whole answer, once. */
export function readOnce(make: () => Promise<Uint8Array>): Read {
  let isRead = false;
  return async () => {
    if (isRead) return null;
    isRead = true;
    return await make();
  };
}
