import { Buffer } from "node:buffer";
import { MAX_JSON_DEPTH } from "../core/limits.ts";
import { refuse, refuseLongName, refuseName } from "./field_refusals.ts";
import {
  type CompiledRules,
  effectOf,
  type FieldRole,
  isText,
  type NameEffect,
  normalForm,
} from "./field_rules.ts";
import type { Span } from "./json_bytes.ts";
import { JsonScanner } from "./openai_chat/json_scanner.ts";
import { wrongType } from "./openai_chat/scan_request.ts";

/** How much a request asks for. */
export interface AskedSize {
  /** The largest bound of an answer's tokens that it names; 0 for none. */
  limit: number;
  /** Whether the provider obeys a bound that it names. */
  isLimited: boolean;
  /** Tokens on top of the bound. */
  added: number;
  /** Answers that it asks for. */
  answers: number;
}

/** How a request's fields are read. */
export interface FieldReading {
  /** Refuse every field that might change the model or the size unseen; else such fields count where they can be read. */
  isStrict: boolean;
  /** Further fields that the operator has declared harmless. */
  allowed: readonly string[];
}

/** An object whose members are read. */
interface Place {
  /** The object around it; null for the request itself. */
  above: Place | null;
  name: string;
  /** What stands before a member's name in paths of rules and in their normal forms; null where no rule is for a member. */
  rules: { path: string; form: string } | null;
}

/** What a name means wherever it stands. */
interface NameFacts {
  form: string;
  effect: NameEffect;
}

/** A member without a rule. */
interface Member {
  key: string;
  place: Place;
  facts: NameFacts;
}

const TOP: Place = { above: null, name: "", rules: { path: "", form: "" } };
/** Nesting of the values of the request's own fields. */
const TOP_DEPTH = 2;

/** Reads a request's fields, one after the other. */
export class FieldReader {
  /** The value of one field of the request, and what scans it. */
  #bytes: Uint8Array = new Uint8Array();
  #scanner = new JsonScanner(this.#bytes);
  readonly #rules: CompiledRules;
  readonly #reading: FieldReading;
  readonly #seen = new Set<string>();
  readonly #names = new Map<string, NameFacts>();
  readonly #counts: number[];
  #limit = 0;
  #added = 0;
  #elements = 1;
  #obeyed = 0;
  /** A bound of no tokens, or of less, may be read as none. */
  #isUnbounded = false;

  constructor(rules: CompiledRules, reading: FieldReading) {
    this.#rules = rules;
    this.#reading = reading;
    this.#counts = new Array(rules.groups).fill(1);
  }

  /** Reads a field of the request itself, whose value is known to be JSON. */
  field(name: string, value: Uint8Array): void {
    this.#bytes = value;
    this.#scanner = new JsonScanner(value);
    this.#member(name, TOP, TOP_DEPTH);
  }

  /** What the fields that were read ask for. */
  get size(): AskedSize {
    return {
      limit: this.#limit,
      isLimited: this.#obeyed > 0 && !this.#isUnbounded,
      added: this.#added,
      answers: this.#elements * this.#counts.reduce((product, count) => product * count, 1),
    };
  }

  #member(name: string, place: Place, depth: number): void {
    const { isStrict, allowed } = this.#reading;
    const isFull = this.#names.size === MAX_NAMES;
    if (!isStrict && isFull && place.rules === null) return this.#skip(depth);
    if (name.length > MAX_NAME_LENGTH) {
      if (isStrict) throw refuseLongName(decodeName(name.slice(0, 80)), MAX_NAME_LENGTH);
      return this.#skip(depth);
    }
    const key = decodeName(name);
    const path = place.rules === null ? null : place.rules.path + key;
    const role = path === null ? undefined : this.#rules.roles.get(path);
    if (path !== null && role !== undefined) {
      // Each element of a list has its own; of values, each that comes is looked at.
      const mayRepeat = role.does === "value" && place.above !== null;
      if (isStrict && !mayRepeat && this.#seen.has(path)) {
        throw refuse(path, `The request names ${path} twice; it may come once`);
      }
      this.#seen.add(path);
      return this.#known(role, { path, key, place }, depth);
    }
    const isTop = place.above === null;
    if (isTop && allowed.includes(key)) return this.#skip(depth);
    const facts = this.#factsOf(key);
    if (facts === null) return this.#skip(depth);
    if (!isStrict) return this.#guess({ key, place, facts }, depth);
    // Null under another spelling may take back what the field itself says.
    if (place.rules !== null && this.#rules.forms.has(place.rules.form + facts.form)) {
      throw refuseName(pathOf(place, key), this.#rules);
    }
    if (!isTop && facts.effect === null) return this.#inside({ key, place, facts }, depth);
    if (this.#value(depth) !== null) throw refuseName(pathOf(place, key), this.#rules);
  }

  /** What a name means by itself; null for one that is not looked at, as a lenient reading has seen too many. */
  #factsOf(key: string): NameFacts | null {
    const before = this.#names.get(key);
    if (before !== undefined) return before;
    if (this.#names.size === MAX_NAMES) {
      if (!this.#reading.isStrict) return null;
      throw refuse(
        key,
        `The request has more than ${MAX_NAMES} different names of fields, too many to check them for an API key with limits`,
      );
    }
    const form = normalForm(key);
    const facts = { form, effect: effectOf(form) };
    this.#names.set(key, facts);
    return facts;
  }

  #known(
    role: FieldRole,
    { path, key, place }: { path: string; key: string; place: Place },
    depth: number,
  ): void {
    switch (role.does) {
      case "text":
        return this.#skip(depth);
      case "plain":
        return this.#walk(this.#below(place, key, normalForm(key)), depth);
      case "list":
        this.#elements *= this.#countElements(depth);
        return;
      case "value": {
        const value = this.#value(depth);
        if (!this.#reading.isStrict || value === null || role.values.includes(value as string)) {
          return;
        }
        const wanted = role.values.map((one) => JSON.stringify(one)).join(", ");
        throw refuse(
          path,
          `${path} may be ${wanted} for an API key with limits: with another value the request costs more than the price of its model`,
        );
      }
      default:
        return this.#number(role, path, depth);
    }
  }

  #number(
    role: Exclude<FieldRole, { does: "text" | "plain" | "list" | "value" }>,
    path: string,
    depth: number,
  ): void {
    const value = this.#value(depth);
    if (value === null) return;
    const { isStrict } = this.#reading;
    const number = isStrict ? value : Number(value);
    if (typeof number !== "number" || !Number.isSafeInteger(number)) {
      if (!isStrict) return;
      const { message } = wrongType(path, value, "a whole number");
      throw refuse(path, message);
    }
    if (role.does === "count") {
      this.#counts[role.group] = Math.max(this.#counts[role.group] ?? 1, number);
    } else if (role.does === "add") this.#added += Math.max(0, number);
    else {
      this.#limit = Math.max(this.#limit, number);
      if (role.does === "limit") this.#obeyed = Math.max(this.#obeyed, number);
      if (number <= 0) this.#isUnbounded = true;
    }
  }

  /** Members of a value, wherever in it objects stand. */
  #walk(place: Place, depth: number): void {
    const scanner = this.#scanner;
    // The scanner refuses what is deeper.
    if (depth > MAX_JSON_DEPTH) return scanner.value(depth);
    if (scanner.take(0x7b)) scanner.members((name) => this.#member(name, place, depth + 1));
    else if (scanner.take(0x5b)) scanner.items(() => this.#walk(place, depth + 1));
    else scanner.value(depth);
  }

  #inside({ key, place, facts }: Member, depth: number): void {
    if (isText(key, place.name)) this.#skip(depth);
    else this.#walk(this.#below(place, key, facts.form), depth);
  }

  #below(above: Place, name: string, form: string): Place {
    const path = above.rules === null ? null : above.rules.form + form;
    const rules = path !== null && above.rules !== null && this.#rules.holders.has(path)
      ? { path: `${above.rules.path}${name}.`, form: `${path}.` }
      : null;
    return { above, name, rules };
  }

  /** A field of the operator's own, which is not refused: it counts if its name says that it is a size. */
  #guess(member: Member, depth: number): void {
    const { effect } = member.facts;
    if (effect !== "size" && effect !== "count") return this.#inside(member, depth);
    const number = Number(this.#value(depth) ?? Number.NaN);
    if (!Number.isSafeInteger(number)) return;
    if (effect === "count") this.#elements = Math.max(this.#elements, number);
    else this.#limit = Math.max(this.#limit, number);
  }

  /** Goes past a value; that of a field of the request itself was scanned before. */
  #skip(depth: number): void {
    if (depth > TOP_DEPTH) this.#scanner.value(depth);
  }

  #countElements(depth: number): number {
    const scanner = this.#scanner;
    if (!scanner.take(0x5b)) {
      scanner.value(depth);
      return 1;
    }
    let count = 0;
    let numbers = 0;
    scanner.items(() => {
      count++;
      if (isNumberStart(this.#bytes[scanner.position])) numbers++;
      scanner.value(depth + 1);
    });
    return Math.max(1, numbers === count ? 1 : count);
  }

  /** The value that stands here; `TOO_LONG` for one that is too long to be a number or a word. */
  #value(depth: number): unknown {
    const scanner = this.#scanner;
    const from = scanner.position;
    scanner.value(depth);
    return this.#parseSmall({ from, to: scanner.position });
  }

  #parseSmall(span: Span): unknown {
    return span.to - span.from > MAX_VALUE_BYTES ? TOO_LONG : this.#scanner.parse(span);
  }
}

const MAX_VALUE_BYTES = 1024;
const TOO_LONG = "a long value";

/** No field that the hub knows has a longer name. */
const MAX_NAME_LENGTH = 256;
/** Different names that are looked at in one request; known ones and those in texts do not count. */
const MAX_NAMES = 1000;

function pathOf({ above, name }: Place, key: string): string {
  return above === null ? key : `${pathOf(above, name)}.${key}`;
}

/** The name of a member as the scanner gives it: raw bytes beyond ASCII come as Latin-1. */
function decodeName(name: string): string {
  const isRaw = /[\x80-\xff]/.test(name) && !/[^\0-\xff]/.test(name);
  return isRaw ? Buffer.from(name, "latin1").toString() : name;
}

/** Whether a JSON value that begins with this byte is a number. */
function isNumberStart(byte: number | undefined): boolean {
  return byte !== undefined && (byte === 0x2d || (byte >= 0x30 && byte <= 0x39));
}
