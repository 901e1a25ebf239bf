import { Buffer } from "node:buffer";
import { HubError } from "../core/error.ts";
import { MAX_JSON_DEPTH } from "../core/limits.ts";
import {
  type CompiledRules,
  COUNT_FORMS,
  type FieldRole,
  formOfPath,
  MODEL_FORMS,
  normalForm,
  SIZE_FORMS,
  TEXT_MEMBERS,
} from "./field_rules.ts";
import { JsonScanner, type Span } from "./openai_chat/json_scanner.ts";
import { wrongType } from "./openai_chat/scan_request.ts";

/** Code of refusals of fields, by which clients know them. */
export const FIELD_NOT_ALLOWED = "field_not_allowed";

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

const NOTHING: AskedSize = { limit: 0, isLimited: false, added: 0, answers: 1 };

/**
 * Reads in one pass what a request's fields ask for. A strict reading throws `invalid_request` with the code
 * `field_not_allowed` for fields that are unknown, spelled like another one, named twice or of the wrong type.
 */
export function readFields(
  body: Uint8Array,
  rules: CompiledRules,
  reading: FieldReading,
): AskedSize {
  const scanner = new JsonScanner(body);
  scanner.skipSpace();
  if (!scanner.take(0x7b)) return NOTHING;
  return new FieldReader(scanner, rules, reading).read();
}

/** Throws as a strict `readFields` does for a query of a request whose fields stand in its body. */
export function assertNoQuery(query: string, allowed: readonly string[]): void {
  for (const [name] of new URLSearchParams(query)) {
    if (allowed.includes(name)) continue;
    const shown = JSON.stringify(name.slice(0, 80));
    throw refuse(
      name,
      `${shown} in the query is refused as this API key has limits: put it in the body`,
    );
  }
}

/** Throws as a strict `readFields` does for the name of a form's field. */
export function assertFieldName(
  name: string,
  rules: CompiledRules,
  allowed: readonly string[],
): void {
  const listed = name.replace(/\[\]$/, "");
  if (name === "model" || (listed !== "model" && rules.roles.has(listed))) return;
  if (allowed.includes(name)) return;
  throw refuseName(name, rules);
}

class FieldReader {
  readonly #scanner: JsonScanner;
  readonly #rules: CompiledRules;
  readonly #reading: FieldReading;
  readonly #seen = new Set<string>();
  readonly #counts: number[];
  #limit = 0;
  #added = 0;
  #elements = 1;
  #obeyed = 0;
  /** A bound of no tokens, or of less, may be read as none. */
  #isUnbounded = false;

  constructor(scanner: JsonScanner, rules: CompiledRules, reading: FieldReading) {
    this.#scanner = scanner;
    this.#rules = rules;
    this.#reading = reading;
    this.#counts = new Array(rules.groups).fill(1);
  }

  read(): AskedSize {
    this.#scanner.members((key) => this.#member(key, "", 2));
    return {
      limit: this.#limit,
      isLimited: this.#obeyed > 0 && !this.#isUnbounded,
      added: this.#added,
      answers: this.#elements * this.#counts.reduce((product, count) => product * count, 1),
    };
  }

  #member(name: string, above: string, depth: number): void {
    const key = decodeName(name);
    const path = above + key;
    const role = this.#rules.roles.get(path);
    if (role !== undefined) {
      if (this.#reading.isStrict && this.#seen.has(path)) {
        throw refuse(path, `The request names ${path} twice; it may come once`);
      }
      this.#seen.add(path);
      return this.#known(role, path, depth);
    }
    if (above === "" && this.#reading.allowed.includes(key)) return this.#scanner.value(depth);
    if (!this.#reading.isStrict) return this.#guess(key, path, depth);
    // Null under another spelling may take back what the field itself says.
    const form = normalForm(key);
    if (this.#rules.forms.has(formOfPath(above) + form)) throw refuseName(path, this.#rules);
    if (above !== "" && !isDangerous(form)) return this.#inside(key, path, depth);
    if (this.#value(depth) !== null) throw refuseName(path, this.#rules);
  }

  #known(role: FieldRole, path: string, depth: number): void {
    switch (role.does) {
      case "text":
        return this.#scanner.value(depth);
      case "plain":
        return this.#walk(`${path}.`, depth);
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
  #walk(above: string, depth: number): void {
    const scanner = this.#scanner;
    // The scanner refuses what is deeper.
    if (depth > MAX_JSON_DEPTH) return scanner.value(depth);
    if (scanner.take(0x7b)) scanner.members((key) => this.#member(key, above, depth + 1));
    else if (scanner.take(0x5b)) scanner.items(() => this.#walk(above, depth + 1));
    else scanner.value(depth);
  }

  #inside(key: string, path: string, depth: number): void {
    if (TEXT_MEMBERS.has(key)) this.#scanner.value(depth);
    else this.#walk(`${path}.`, depth);
  }

  /** A field of the operator's own, which is not refused: it counts if its name says that it is a size. */
  #guess(key: string, path: string, depth: number): void {
    const form = normalForm(key);
    const isCount = COUNT_FORMS.has(form);
    if (!isCount && !SIZE_FORMS.has(form)) return this.#inside(key, path, depth);
    const number = Number(this.#value(depth) ?? Number.NaN);
    if (!Number.isSafeInteger(number)) return;
    if (isCount) this.#elements = Math.max(this.#elements, number);
    else this.#limit = Math.max(this.#limit, number);
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
      const from = scanner.position;
      scanner.value(depth + 1);
      if (typeof this.#parseSmall({ from, to: scanner.position }) === "number") numbers++;
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

const isDangerous = (form: string) =>
  MODEL_FORMS.has(form) || SIZE_FORMS.has(form) || COUNT_FORMS.has(form);

/** The name of a member as the scanner gives it: raw bytes beyond ASCII come as Latin-1. */
function decodeName(name: string): string {
  const isRaw = /[\x80-\xff]/.test(name) && !/[^\0-\xff]/.test(name);
  return isRaw ? Buffer.from(name, "latin1").toString() : name;
}

function refuseName(path: string, { forms }: CompiledRules): HubError {
  const last = normalForm(path.slice(path.lastIndexOf(".") + 1));
  const known = forms.get(formOfPath(path)) ?? forms.get(normalForm(path));
  const may = known !== undefined
    ? `may be read as ${known}: write ${known}, once`
    : MODEL_FORMS.has(last)
    ? "may make another model or provider answer: leave it out"
    : isDangerous(last)
    ? "may make the answer larger unseen: leave it out"
    : "is not known to the hub, and may change the model or the size of the answer: leave it out, or have the operator list it in the provider's allowedFields";
  const shown = JSON.stringify(path.slice(0, 80));
  return refuse(path, `The field ${shown} is refused as this API key has limits. It ${may}`);
}

function refuse(param: string, message: string): HubError {
  return new HubError("invalid_request", message, {
    param: param.slice(0, 80),
    clientCode: FIELD_NOT_ALLOWED,
  });
}
