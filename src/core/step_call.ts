/** A tool call as the model wrote it so far. */
export interface StepCall {
  toolCallId: string;
  providerCallId: string;
  wireName: string;
  toolName: string;
  /** As much of the arguments as there was room for. */
  inputText: string;
  /** Characters of the arguments that came: more than `inputText` has when it is cut. */
  inputLength: number;
}

/** Most characters of arguments that are kept. */
export interface InputBounds {
  ofCall: number;
  /** Of all calls of the answer together. */
  ofAnswer: number;
}

/** Appends to the arguments of the calls of one answer, as far as its bounds allow. */
export class CallInputs {
  readonly #bounds: InputBounds;
  #length = 0;

  constructor(bounds: InputBounds = { ofCall: Infinity, ofAnswer: Infinity }) {
    this.#bounds = bounds;
  }

  /** Gives the beginning of `delta` that was appended. */
  append(call: StepCall, delta: string): string {
    const { ofCall, ofAnswer } = this.#bounds;
    // Once a call is cut, nothing more is appended, so that its text is a beginning of what came.
    const isCut = call.inputLength > call.inputText.length;
    const room = isCut ? 0 : Math.min(ofCall - call.inputText.length, ofAnswer - this.#length);
    const taken = room < delta.length ? delta.slice(0, room) : delta;
    call.inputText += taken;
    call.inputLength += delta.length;
    this.#length += taken.length;
    return taken;
  }
}
