import { isJsonObject, type Json, type JsonObject, type JsonSchema } from "../core/json.ts";
import type { ToolInputProblem } from "../core/tool.ts";
import { checkArray, checkNumber, checkString } from "./check_value.ts";
import { coerceTo, listOf, typeMatches } from "./coerce.ts";
import { describeValue, describeWanted } from "./describe_value.ts";
import { findHostileJson } from "./hostile_json.ts";
import { escapeToken } from "./json_pointer.ts";
import { createRefResolver, type ResolveRef } from "./schema_ref.ts";
import { sameJson } from "./same_json.ts";

/** How a schema is applied. */
export interface ValidateOptions {
  /** Turn strings into numbers, booleans or JSON where the schema wants those. Default true. */
  coerce?: boolean;
  /** Leave out nulls of optional properties that do not allow null: strict schemas make models send them. Default false. */
  dropNulls?: boolean;
  /**
   * `native` runs the schema's regular expressions and `not`; only for schemas the operator wrote. `ignore` (default)
   * skips both: a foreign expression can block the event loop for seconds, and without it `not` would be wrong.
   */
  patterns?: "native" | "ignore";
}

/** The value to run with, or everything that is wrong with it (at most 20 problems). */
export type Validation =
  | { ok: true; input: Json }
  | { ok: false; problems: ToolInputProblem[] };

/** Applies one schema to a value. Never throws, never changes the value it is given. */
export type Validator = (input: Json) => Validation;

interface Work {
  resolve: ResolveRef;
  coerce: boolean;
  dropNulls: boolean;
  native: boolean;
  /** Checks left; shared by all branches, so that no schema can make a check endless. */
  budget: { left: number; nesting: number };
  problems: ToolInputProblem[];
}

const MAX_CHECKS = 50_000;
/** A reference may lead back to itself without going deeper into the value. */
const MAX_NESTING = 500;
const MAX_PROBLEMS = 20;

/**
 * Makes the validator of a JSON Schema: TypeBox schemas and those of MCP servers alike (drafts 7 and 2020-12).
 * Understood: local `$ref`, `type`, `enum`, `const`, `anyOf`, `oneOf`, `allOf`, `not`, the keywords of objects, arrays,
 * strings and numbers. `oneOf` wants at least one branch, since skipped keywords can make two of them match.
 * Unknown keywords, `format` and conditions say nothing.
 */
export function createValidator(schema: Json, options: ValidateOptions = {}): Validator {
  const resolve = createRefResolver(schema);
  return (input) => {
    const hostile = findHostileJson(input);
    if (hostile !== null) return { ok: false, problems: [hostile] };
    const work: Work = {
      resolve,
      coerce: options.coerce ?? true,
      dropNulls: options.dropNulls ?? false,
      native: options.patterns === "native",
      budget: { left: MAX_CHECKS, nesting: 0 },
      problems: [],
    };
    const value = check(work, { schema, value: input, path: "" });
    if (work.problems.length === 0) return { ok: true, input: value };
    return { ok: false, problems: distinct(work.problems).slice(0, MAX_PROBLEMS) };
  };
}

/** Applies a schema once; see `createValidator`. */
export function validateInput(
  schema: JsonSchema,
  input: Json,
  options: ValidateOptions = {},
): Validation {
  return createValidator(schema, options)(input);
}

/** Several branches often find the same thing. */
function distinct(problems: ToolInputProblem[]): ToolInputProblem[] {
  return [...new Map(problems.map((problem) => [JSON.stringify(problem), problem])).values()];
}

/** One schema applied to one value at one place. */
interface Target {
  schema: Json | undefined;
  value: Json;
  path: string;
}

function fail(work: Work, target: Target, wanted: string): void {
  work.problems.push({ path: target.path, wanted, got: describeValue(target.value) });
}

/** Returns the value, coerced where needed; problems go to `work`. */
function check(work: Work, target: Target): Json {
  const { schema } = target;
  if (schema === false) fail(work, target, "nothing here");
  if (!isJsonObject(schema)) return target.value;
  const { budget } = work;
  if (--budget.left < 0 || budget.nesting >= MAX_NESTING) {
    fail(work, target, "a value that can be checked in bounded time");
    return target.value;
  }
  budget.nesting++;
  const value = applySchema(work, schema, target);
  budget.nesting--;
  return value;
}

function applySchema(work: Work, schema: JsonObject, target: Target): Json {
  const { path } = target;
  let value = target.value;
  if (typeof schema.$ref === "string") {
    const leadsTo = work.resolve(schema.$ref);
    if (leadsTo !== null) value = check(work, { schema: leadsTo.schema, value, path });
  }
  const types = listOf(schema.type);
  if (types.length > 0 && !types.some((type) => typeMatches(type, value))) {
    const coerced = work.coerce ? coerceTo(types, value) : undefined;
    if (coerced === undefined) {
      fail(work, { schema, value, path }, describeWanted(schema));
      return value;
    }
    value = coerced;
  }
  if (!allowedLiteral(schema, value)) {
    fail(work, { schema, value, path }, describeWanted(schema));
    return value;
  }
  value = checkBranches(work, schema, { schema, value, path });
  if (typeof value === "string") report(work, path, checkString(schema, value, work.native));
  else if (typeof value === "number") report(work, path, checkNumber(schema, value));
  else if (Array.isArray(value)) value = checkItems(work, schema, { schema, value, path });
  else if (isJsonObject(value)) value = checkProperties(work, schema, { value, path });
  return value;
}

function report(work: Work, path: string, found: { wanted: string; got: string }[]): void {
  for (const problem of found) work.problems.push({ path, ...problem });
}

function allowedLiteral(schema: JsonObject, value: Json): boolean {
  if (schema.const !== undefined && !sameJson(schema.const, value)) return false;
  if (!Array.isArray(schema.enum)) return true;
  return schema.enum.some((allowed) => sameJson(allowed, value));
}

function checkBranches(work: Work, schema: JsonObject, target: Target): Json {
  let value = target.value;
  if (Array.isArray(schema.allOf)) {
    for (const branch of schema.allOf) value = check(work, { ...target, schema: branch, value });
  }
  for (const branches of [schema.anyOf, schema.oneOf]) {
    if (Array.isArray(branches) && branches.length > 0) {
      value = checkUnion(work, branches, { ...target, value });
    }
  }
  if (work.native && schema.not !== undefined) {
    const against = attempt(work, { ...target, schema: schema.not, value }, false);
    if (against.problems.length === 0) {
      fail(work, { ...target, value }, "a value that does not match `not`");
    }
  }
  return value;
}

/** A branch that fits as it is wins over one that needs coercion; else the closest branch speaks. */
function checkUnion(work: Work, branches: Json[], target: Target): Json {
  const closest: ToolInputProblem[][] = [];
  for (const coerce of work.coerce || work.dropNulls ? [false, true] : [false]) {
    closest.length = 0;
    for (const branch of branches) {
      const tried = attempt(work, { ...target, schema: branch }, coerce);
      if (tried.problems.length === 0) return tried.value;
      closest.push(tried.problems);
    }
  }
  const deeper = closest
    .filter((problems) => problems.every(({ path }) => path !== target.path))
    .sort((a, b) => a.length - b.length)[0];
  if (deeper !== undefined) work.problems.push(...deeper);
  else fail(work, target, [...new Set(branches.map(describeWanted))].slice(0, 12).join(" or "));
  return target.value;
}

function attempt(work: Work, target: Target, coerce: boolean) {
  const inner: Work = {
    ...work,
    coerce: work.coerce && coerce,
    dropNulls: work.dropNulls && coerce,
    problems: [],
  };
  return { value: check(inner, target), problems: inner.problems };
}

function checkItems(work: Work, schema: JsonObject, target: Target & { value: Json[] }): Json {
  report(work, target.path, checkArray(schema, target.value));
  const tuple = Array.isArray(schema.prefixItems)
    ? schema.prefixItems
    : Array.isArray(schema.items)
    ? schema.items
    : [];
  const rest = Array.isArray(schema.items) ? schema.additionalItems : schema.items;
  if (tuple.length === 0 && rest === undefined) return target.value;
  return target.value.map((value, index) =>
    check(work, { schema: tuple[index] ?? rest, value, path: `${target.path}/${index}` })
  );
}

function checkProperties(
  work: Work,
  schema: JsonObject,
  target: { value: JsonObject; path: string },
): JsonObject {
  const { value, path } = target;
  const known = isJsonObject(schema.properties) ? schema.properties : {};
  const required = listOf(schema.required);
  const kept: JsonObject = {};
  for (const [key, child] of Object.entries(value)) {
    const place = `${path}/${escapeToken(key)}`;
    if (isJsonObject(schema.propertyNames)) {
      const name = { schema: schema.propertyNames, value: key, path: place };
      for (const { wanted } of attempt(work, name, false).problems) {
        work.problems.push({ path: place, wanted: `${wanted} as its name`, got: "another name" });
      }
    }
    if (Object.hasOwn(known, key)) {
      if (child === null && work.dropNulls && !required.includes(key)) {
        const tried = attempt(work, { schema: known[key], value: null, path: place }, false);
        if (tried.problems.length > 0) continue;
      }
      kept[key] = check(work, { schema: known[key], value: child, path: place });
    } else {
      kept[key] = checkExtra(work, schema, { key, value: child, path: place });
    }
  }
  for (const key of required) {
    if (Object.hasOwn(kept, key)) continue;
    const wanted = Object.hasOwn(known, key) ? describeWanted(known[key]) : "a value";
    work.problems.push({ path: `${path}/${escapeToken(key)}`, wanted, got: "nothing" });
  }
  const count = Object.keys(kept).length;
  if (typeof schema.minProperties === "number" && count < schema.minProperties) {
    fail(work, { schema, value, path }, `at least ${schema.minProperties} properties`);
  }
  if (typeof schema.maxProperties === "number" && count > schema.maxProperties) {
    fail(work, { schema, value, path }, `at most ${schema.maxProperties} properties`);
  }
  return kept;
}

/** A property that `properties` does not list. */
function checkExtra(
  work: Work,
  schema: JsonObject,
  extra: { key: string; value: Json; path: string },
): Json {
  let value = extra.value;
  let matched = false;
  for (
    const [pattern, child] of isJsonObject(schema.patternProperties)
      ? Object.entries(schema.patternProperties)
      : []
  ) {
    const verdict = matchesKey(pattern, extra.key, work.native);
    if (verdict === true) value = check(work, { schema: child, value, path: extra.path });
    matched ||= verdict !== false;
  }
  if (matched) return value;
  if (schema.additionalProperties === false) {
    const names = Object.keys(isJsonObject(schema.properties) ? schema.properties : {});
    const wanted = names.length === 0 ? "no property" : `one of ${names.slice(0, 20).join(", ")}`;
    work.problems.push({ path: extra.path, wanted, got: "a property the schema does not know" });
    return value;
  }
  return check(work, { schema: schema.additionalProperties, value, path: extra.path });
}

/** Whether a key fits a pattern of `patternProperties`; undefined when the pattern may not be run. */
function matchesKey(pattern: string, key: string, native: boolean): boolean | undefined {
  if (pattern === "^(.*)$" || pattern === ".*" || pattern === "") return true;
  if (!native) return undefined;
  try {
    return new RegExp(pattern, "u").test(key);
  } catch {
    return undefined;
  }
}
