import { wellFormedText } from "../well_formed.ts";

/** Puts a text together of pieces that were cut anywhere, between the halves of a character too. */
export class LongText {
  readonly #isMended: boolean;
  readonly #pieces: string[] = [];
  /** The first half of a character, whose second may come. */
  #half = "";

  /** `isMended`: what is no Unicode text becomes U+FFFD, as `wellFormedText` has it. */
  constructor({ isMended }: { isMended: boolean }) {
    this.#isMended = isMended;
  }

  add(piece: string): void {
    if (!this.#isMended) {
      this.#pieces.push(piece);
      return;
    }
    const text = this.#half + piece;
    const last = text.charCodeAt(text.length - 1);
    const isHalf = last >= 0xd800 && last <= 0xdbff;
    this.#half = isHalf ? text.slice(-1) : "";
    this.#pieces.push(wellFormedText(isHalf ? text.slice(0, -1) : text));
  }

  /** The whole text. */
  end(): string {
    if (this.#half !== "") this.#pieces.push(wellFormedText(this.#half));
    return this.#pieces.join("");
  }
}
