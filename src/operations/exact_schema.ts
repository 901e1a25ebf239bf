import { HubError } from "../core/error.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { escapeToken } from "./json_pointer.ts";
import { CHECKED_FORMATS } from "./formats.ts";
import { createLinearPattern } from "./linear_pattern.ts";
import { JSON_TYPES } from "./schema_keywords.ts";
import { createRefResolver } from "./schema_ref.ts";
import { LIST_KEYWORDS, MAP_KEYWORDS, SINGLE_KEYWORDS } from "./subschemas.ts";

const MAX_PARTS = 20_000;
/** Of all patterns together: to make them takes time too. */
const MAX_STATES = 50_000;
const UNCHECKED: ReadonlySet<string> = new Set([
  "$dynamicRef",
  "$recursiveRef",
  "unevaluatedItems",
  "unevaluatedProperties",
]);

type Form = readonly [wanted: string, fits: (value: Json) => boolean];

const isCount = (value: Json) => Number.isInteger(value) && Number(value) >= 0;
const isNumber = (value: Json) => typeof value === "number";
const isBoolean = (value: Json) => typeof value === "boolean";
const isNames = (value: Json) =>
  Array.isArray(value) && value.every((name) => typeof name === "string");

const COUNT: Form = ["a whole number that is not negative", isCount];
const NUMBER: Form = ["a number", isNumber];
/** Draft 4 has a boolean there. */
const BOUND: Form = ["a number", (value) => isNumber(value) || isBoolean(value)];

/** What the value of a keyword that is checked has to be: one of another form would say nothing. */
const FORMS: Readonly<Record<string, Form>> = {
  type: ["JSON types", (value) => {
    const types = Array.isArray(value) ? value : [value];
    return types.length > 0 &&
      types.every((type) => typeof type === "string" && JSON_TYPES.includes(type));
  }],
  enum: ["a list", (value) => Array.isArray(value)],
  required: ["a list of names", isNames],
  dependentRequired: [
    "lists of names",
    (value) => isJsonObject(value) && Object.values(value).every(isNames),
  ],
  maxContains: COUNT,
  maxItems: COUNT,
  maxLength: COUNT,
  maxProperties: COUNT,
  minContains: COUNT,
  minItems: COUNT,
  minLength: COUNT,
  minProperties: COUNT,
  maximum: NUMBER,
  minimum: NUMBER,
  exclusiveMaximum: BOUND,
  exclusiveMinimum: BOUND,
  multipleOf: ["a number above 0", (value) => typeof value === "number" && value > 0],
  uniqueItems: ["true or false", isBoolean],
  format: [
    `one of ${CHECKED_FORMATS.join(", ")}`,
    (value) => typeof value === "string" && CHECKED_FORMATS.includes(value),
  ],
};

/**
 * Throws `invalid_request` for a schema with a rule that `createValidator` does not check with `exact`; the message names the
 * keyword and its place. Unknown keywords are no rules.
 */
export function assertExactSchema(root: JsonObject): void {
  const resolve = createRefResolver(root);
  const waiting: Part[] = [{ schema: root, place: "" }];
  const seen = new Set<string>();
  const patterns = new Map<string, number>();
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { schema, place } = next;
    if (isBoolean(schema) || seen.has(place)) continue;
    if (!isJsonObject(schema)) throw refusal(place, "no schema, wanted an object or true or false");
    seen.add(place);
    if (seen.size > MAX_PARTS) throw refusal("", `larger than ${MAX_PARTS} schemas`);
    for (const [keyword, value] of Object.entries(schema)) {
      const at = `${place}/${escapeToken(keyword)}`;
      if (UNCHECKED.has(keyword)) throw refusal(at, "a rule that answers are not checked for");
      const form = Object.hasOwn(FORMS, keyword) ? FORMS[keyword] : undefined;
      if (form !== undefined) assertForm(at, value, form);
      if (keyword === "pattern") countPattern(patterns, value, at);
      if (keyword === "$ref") {
        const target = typeof value === "string" ? resolve(value) : null;
        if (target === null) throw refusal(at, "a reference that leads nowhere in the schema");
        waiting.push({ schema: target.schema, place: target.pointer });
      }
      if (keyword === "patternProperties" && isJsonObject(value)) {
        for (const name of Object.keys(value)) {
          countPattern(patterns, name, `${at}/${escapeToken(name)}`);
        }
      }
      waiting.push(...childrenOf(keyword, value, at));
    }
  }
}

function countPattern(known: Map<string, number>, pattern: Json, place: string): void {
  if (typeof pattern === "string" && known.has(pattern)) return;
  const linear = typeof pattern === "string" ? createLinearPattern(pattern) : null;
  if (linear === null) {
    throw refusal(
      place,
      `${JSON.stringify(pattern).slice(0, 100)}, wanted a regular expression (flag u) ` +
        "of at most 1000 characters, and 20000 with its repetitions, that neither looks around nor refers back to a group",
    );
  }
  known.set(String(pattern), linear.states);
  if (known.values().reduce((sum, states) => sum + states, 0) > MAX_STATES) {
    throw refusal(place, "a pattern too much: all of them together are too large");
  }
}

function assertForm(place: string, value: Json, [wanted, fits]: Form): void {
  if (!fits(value)) {
    throw refusal(place, `${JSON.stringify(value).slice(0, 100)}, wanted ${wanted}`);
  }
}

interface Part {
  schema: Json;
  place: string;
}

function childrenOf(keyword: string, value: Json, place: string): Part[] {
  if (LIST_KEYWORDS.has(keyword) && Array.isArray(value)) {
    return value.map((schema, index) => ({ schema, place: `${place}/${index}` }));
  }
  if (SINGLE_KEYWORDS.has(keyword)) return [{ schema: value, place }];
  if (LIST_KEYWORDS.has(keyword)) throw refusal(place, "no list of schemas");
  if (!MAP_KEYWORDS.has(keyword) && keyword !== "dependencies") return [];
  if (!isJsonObject(value)) throw refusal(place, "no object of schemas");
  return Object.entries(value)
    .filter(([, schema]) => keyword !== "dependencies" || !isNames(schema))
    .map(([name, schema]) => ({ schema, place: `${place}/${escapeToken(name)}` }));
}

function refusal(place: string, is: string): HubError {
  return new HubError(
    "invalid_request",
    `Answers cannot be held to the schema: ${place === "" ? "it" : `#${place}`} is ${is}`,
    { param: "schema" },
  );
}
