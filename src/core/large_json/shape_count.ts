import { HubError } from "../error.ts";
import { MAX_JSON_DEPTH, MAX_JSON_KEYS, MAX_JSON_VALUES, MAX_OBJECT_MEMBERS } from "../limits.ts";

/** Bounds of a JSON document; the defaults are those of request bodies, in `core/limits.ts`. */
export interface JsonBounds {
  maxDepth?: number;
  maxKeys?: number;
  maxValues?: number;
  /** Of one object. */
  maxMembers?: number;
}

const BODY_BOUNDS: Readonly<Required<JsonBounds>> = {
  maxDepth: MAX_JSON_DEPTH,
  maxKeys: MAX_JSON_KEYS,
  maxValues: MAX_JSON_VALUES,
  maxMembers: MAX_OBJECT_MEMBERS,
};

/** Counts what a JSON document is made of. Throws `invalid_request` past a bound. */
export class ShapeCount {
  readonly #bounds: Required<JsonBounds>;
  readonly #what: string;
  #depth = 0;
  /** Members so far of the container at each depth. */
  readonly #members: number[] = [];
  #keys = 0;
  #values = 0;

  /** `what` is the subject of errors. */
  constructor(bounds: JsonBounds, what: string) {
    this.#bounds = { ...BODY_BOUNDS, ...bounds };
    this.#what = what;
  }

  /** Begins another document. */
  reset(): void {
    this.#depth = 0;
    this.#keys = 0;
    this.#values = 0;
  }

  /** All containers end. */
  surface(): void {
    this.#depth = 0;
  }

  /** A container begins. */
  enter(): void {
    const { maxDepth } = this.#bounds;
    if (++this.#depth > maxDepth) throw this.#refuse(`is nested more than ${maxDepth} levels deep`);
    this.#members[this.#depth] = 0;
  }

  /** A container ends. */
  leave(): void {
    this.#depth--;
  }

  /** A member has a name. */
  addKey(): void {
    const { maxKeys, maxMembers } = this.#bounds;
    if (++this.#keys > maxKeys) throw this.#refuse(`has more than ${maxKeys} keys`);
    const members = (this.#members[this.#depth] ?? 0) + 1;
    this.#members[this.#depth] = members;
    if (members > maxMembers) {
      throw this.#refuse(`has an object with more than ${maxMembers} members`);
    }
  }

  /** A value begins. */
  addValue(): void {
    const { maxValues } = this.#bounds;
    if (++this.#values > maxValues) throw this.#refuse(`has more than ${maxValues} values`);
  }

  #refuse(how: string): HubError {
    return new HubError("invalid_request", `${this.#what} ${how}`);
  }
}
