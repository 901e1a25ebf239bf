import type { Json, JsonObject } from "../json.ts";
import { joinBytes } from "../join_bytes.ts";
import { nextTurn, WorkStretch } from "../next_turn.ts";
import { hasBrokenEscape, toStorableJson } from "../well_formed.ts";

/** Characters of a value up to which it is written at once. */
const WHOLE_UNITS = 128 * 1024;
const PIECE_UNITS = 32 * 1024;
/** Characters between two turns of the event loop. */
const STRETCH_UNITS = 256 * 1024;
/** What a value costs besides its characters. */
const VALUE_UNITS = 8;

/** How much is written at once, in characters. */
export interface WriteSizes {
  wholeUnits?: number;
  pieceUnits?: number;
}

const encoder = new TextEncoder();

/** `JSON.stringify` as UTF-8 for values of any size: the event loop turns every quarter of a megabyte. */
export async function encodeJsonInSteps(value: Json, sizes: WriteSizes = {}): Promise<Uint8Array> {
  if (isWithin(value, sizes.wholeUnits ?? WHOLE_UNITS)) {
    return encoder.encode(JSON.stringify(value));
  }
  const pieces: Uint8Array[] = [];
  await new Writer((text) => pieces.push(encoder.encode(text)), sizes).write(value);
  return joinBytes(pieces);
}

/** `JSON.stringify` for values of any size, as `encodeJsonInSteps`. */
export async function stringifyInSteps(value: Json, sizes: WriteSizes = {}): Promise<string> {
  if (isWithin(value, sizes.wholeUnits ?? WHOLE_UNITS)) return JSON.stringify(value);
  const pieces: string[] = [];
  await new Writer((text) => pieces.push(text), sizes).write(value);
  return pieces.join("");
}

/** `toStorableJson` for values of any size. */
export async function storableJsonInSteps(value: Json): Promise<string> {
  const text = await stringifyInSteps(value);
  await nextTurn();
  return hasBrokenEscape(text) ? toStorableJson(value) : text;
}

/** Whether a value is at most so large, in characters; looks no further than that. */
function isWithin(value: Json, units: number): boolean {
  return roomLeft(value, units) >= 0;
}

/** What is left of this room behind the value; negative when it is larger. */
function roomLeft(value: Json | undefined, room: number): number {
  let left = room - VALUE_UNITS;
  if (typeof value === "string") return left - value.length;
  if (typeof value !== "object" || value === null) return left;
  if (Array.isArray(value)) {
    for (const item of value) {
      left = roomLeft(item, left);
      if (left < 0) return left;
    }
    return left;
  }
  for (const name in value) if (left >= 0) left = roomLeft(value[name], left - name.length);
  return left;
}

/** Writes a value in pieces: runs of small members together, large strings in parts. */
class Writer {
  readonly #put: (text: string) => void;
  readonly #pieceUnits: number;
  readonly #stretch = new WorkStretch(STRETCH_UNITS);
  /** Joined when they are put, since a text that grows by small pieces is slow to read. */
  #texts: string[] = [];
  #units = 0;

  constructor(put: (text: string) => void, { pieceUnits = PIECE_UNITS }: WriteSizes) {
    this.#put = put;
    this.#pieceUnits = pieceUnits;
  }

  async write(value: Json): Promise<void> {
    await this.#value(value);
    await this.#flush();
  }

  /** Promises only for what takes turns: one for each of many small members would take longer than they do. */
  #value(value: Json): Promise<void> | undefined {
    const left = roomLeft(value, this.#pieceUnits);
    if (left >= 0 || value === null || typeof value !== "string" && typeof value !== "object") {
      return this.#add(JSON.stringify(value), this.#pieceUnits - left);
    }
    return typeof value === "string" ? this.#longString(value) : this.#container(value);
  }

  async #container(value: JsonObject | Json[]): Promise<void> {
    if (Array.isArray(value)) {
      let before = "[";
      for (const item of value) {
        this.#texts.push(before);
        const writing = this.#value(item ?? null);
        if (writing !== undefined) await writing;
        before = ",";
      }
      this.#texts.push(before === "[" ? "[]" : "]");
      return;
    }
    let before = "{";
    for (const name of Object.keys(value)) {
      const member = value[name];
      if (member === undefined) continue;
      this.#texts.push(before);
      const naming = this.#value(name);
      if (naming !== undefined) await naming;
      this.#texts.push(":");
      const writing = this.#value(member);
      if (writing !== undefined) await writing;
      before = ",";
    }
    this.#texts.push(before === "{" ? "{}" : "}");
  }

  async #longString(value: string): Promise<void> {
    this.#texts.push('"');
    for (let at = 0; at < value.length;) {
      const end = cut(value, at + this.#pieceUnits);
      this.#texts.push(JSON.stringify(value.slice(at, end)).slice(1, -1));
      this.#units += end - at;
      at = end;
      await this.#flush();
    }
    this.#texts.push('"');
  }

  #add(text: string, units: number): Promise<void> | undefined {
    this.#texts.push(text);
    this.#units += units;
    return this.#units >= this.#pieceUnits ? this.#flush() : undefined;
  }

  #flush(): Promise<void> | undefined {
    this.#put(this.#texts.join(""));
    const units = this.#units;
    this.#texts = [];
    this.#units = 0;
    return this.#stretch.spend(units);
  }
}

/** A place at or behind `at` that is not inside of a character. */
function cut(text: string, at: number): number {
  const [before, behind] = [text.charCodeAt(at - 1), text.charCodeAt(at)];
  const isInside = before >= 0xd800 && before <= 0xdbff && behind >= 0xdc00 && behind <= 0xdfff;
  return isInside ? at + 1 : at;
}
