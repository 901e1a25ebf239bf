import { HubError } from "./error.ts";
import { MAX_ANSWER_LENGTH, MAX_READ_CALLS } from "./limits.ts";

/** Counts what a model writes in one answer. Both throw `upstream_malformed` past the bound. */
export class AnswerBounds {
  #length = 0;
  #calls = 0;

  /** Counts text, reasoning or arguments. */
  addText({ length }: string): void {
    this.#length += length;
    if (this.#length > MAX_ANSWER_LENGTH) {
      throw tooLarge(`is longer than ${MAX_ANSWER_LENGTH} characters`);
    }
  }

  /** Counts a tool call that begins. */
  addCall(): void {
    if (++this.#calls > MAX_READ_CALLS) {
      throw tooLarge(`has more than ${MAX_READ_CALLS} tool calls`);
    }
  }
}

function tooLarge(what: string): HubError {
  return new HubError("upstream_malformed", `The model's answer ${what}`);
}
