import { isJsonObject, type Json, type JsonObject, type JsonSchema } from "../core/json.ts";
import type { ToolInputProblem } from "../core/tool.ts";
import { checkProperties } from "./check_properties.ts";
import { checkArray, checkNumber, checkString } from "./check_value.ts";
import { coerceTo, listOf, typeMatches } from "./coerce.ts";
import { describeWanted } from "./describe_value.ts";
import { findHostileJson } from "./hostile_json.ts";
import { checkExactRules, type RuleCheck } from "./exact_rules.ts";
import { createPatternTests } from "./run_pattern.ts";
import { createRefResolver } from "./schema_ref.ts";
import { createLiterals } from "./literals.ts";
import {
  attempt,
  fail,
  failBounded,
  report,
  spend,
  spendOn,
  type Target,
  type Work,
} from "./validation_work.ts";

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
  /**
   * Hold the value to every rule of a schema that `assertExactSchema` lets pass: patterns, in linear time, and with them `not`,
   * formats, conditions, exactly one branch of `oneOf`. Default false.
   */
  exact?: boolean;
}

/** The value to run with, or everything that is wrong with it (at most 20 problems). */
export type Validation =
  | { ok: true; input: Json }
  | { ok: false; problems: ToolInputProblem[] };

/** Applies one schema to a value. Never throws, never changes the value it is given. */
export type Validator = (input: Json) => Validation;

const MAX_CHECKS = 50_000;
/** Some hundred milliseconds: what one check looks at may be long. */
const MAX_STEPS = 5_000_000;
/** A reference may lead back to itself without going deeper into the value. */
const MAX_NESTING = 500;
const MAX_PROBLEMS = 20;

/**
 * Makes the validator of a JSON Schema: TypeBox schemas and those of MCP servers alike (drafts 7 and 2020-12).
 * Understood: local `$ref`, `type`, `enum`, `const`, `anyOf`, `oneOf`, `allOf`, `not`, the keywords of objects, arrays,
 * strings and numbers. Unless it is to be `exact`, `oneOf` wants at least one branch, since skipped keywords can make two
 * of them match, and `format`, conditions and references that lead nowhere say nothing. Unknown keywords never do.
 */
export function createValidator(schema: Json, options: ValidateOptions = {}): Validator {
  const resolve = createRefResolver(schema);
  const exact = options.exact ?? false;
  const startTests = createPatternTests(exact ? "linear" : options.patterns ?? "ignore");
  return (input) => {
    const hostile = findHostileJson(input);
    if (hostile !== null) return { ok: false, problems: [hostile] };
    const budget = { left: MAX_CHECKS, steps: MAX_STEPS, nesting: 0, isSpent: false };
    const work: Work = {
      resolve,
      coerce: options.coerce ?? true,
      dropNulls: options.dropNulls ?? false,
      exact,
      negates: exact || options.patterns === "native",
      isFound: startTests(() => budget.isSpent = true),
      literals: createLiterals((chars) => void spend({ budget }, { chars })),
      budget,
      problems: [],
      check,
    };
    const root = { schema, value: input, path: "" };
    const value = check(work, root);
    if (exact && budget.isSpent) failBounded(work, root);
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

/** Returns the value, coerced where needed; problems go to `work`. */
function check(work: Work, target: Target): Json {
  const { schema } = target;
  if (schema === true || schema === undefined) return target.value;
  const { budget } = work;
  const isLeft = --budget.left >= 0 && budget.steps >= 0 && budget.nesting < MAX_NESTING;
  if (!isLeft || isJsonObject(schema) && !spendOn(work, schema, target.value)) {
    failBounded(work, target);
    return target.value;
  }
  if (schema === false) fail(work, target, "nothing here");
  if (!isJsonObject(schema)) return target.value;
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
  if (!allowedLiteral(work, schema, value)) {
    fail(work, { schema, value, path }, describeWanted(schema));
    return value;
  }
  value = checkBranches(work, schema, { schema, value, path });
  if (typeof value === "string") report(work, path, checkString(schema, value, work.isFound));
  else if (typeof value === "number") report(work, path, checkNumber(schema, value));
  else if (Array.isArray(value)) value = checkItems(work, schema, { schema, value, path });
  else if (isJsonObject(value)) value = checkProperties(work, schema, { value, path });
  if (work.exact) checkExactRules(schema, value, ruleCheck(work, { schema, value, path }));
  return value;
}

function ruleCheck(work: Work, target: Target): RuleCheck {
  return {
    fits: (schema, value) =>
      attempt(work, { ...target, schema, value }, false).problems.length === 0,
    hold: (schema, value) => void check(work, { ...target, schema, value }),
    fail: (wanted) => fail(work, target, wanted),
  };
}

function allowedLiteral({ literals }: Work, schema: JsonObject, value: Json): boolean {
  if (schema.const !== undefined && !literals.has([schema.const], value)) return false;
  return !Array.isArray(schema.enum) || literals.has(schema.enum, value);
}

function checkBranches(work: Work, schema: JsonObject, target: Target): Json {
  let value = target.value;
  if (Array.isArray(schema.allOf)) {
    for (const branch of schema.allOf) value = check(work, { ...target, schema: branch, value });
  }
  for (const keyword of ["anyOf", "oneOf"]) {
    const branches = schema[keyword];
    if (Array.isArray(branches) && branches.length > 0) {
      const isOne = work.exact && keyword === "oneOf";
      value = checkUnion(work, branches, { ...target, value, isOne });
    }
  }
  if (work.negates && schema.not !== undefined) {
    const against = attempt(work, { ...target, schema: schema.not, value }, false);
    if (against.problems.length === 0) {
      fail(work, { ...target, value }, "a value that does not match `not`");
    }
  }
  return value;
}

/** A branch that fits as it is wins over one that needs coercion; else the closest branch speaks. */
function checkUnion(work: Work, branches: Json[], target: Target & { isOne: boolean }): Json {
  const closest: ToolInputProblem[][] = [];
  for (const coerce of work.coerce || work.dropNulls ? [false, true] : [false]) {
    closest.length = 0;
    let fitting: { value: Json } | undefined;
    for (const branch of branches) {
      const tried = attempt(work, { ...target, schema: branch }, coerce);
      if (tried.problems.length > 0) closest.push(tried.problems);
      else if (!target.isOne) return tried.value;
      else if (fitting === undefined) fitting = tried;
      else {
        fail(work, target, "exactly one form of `oneOf`, not several at once");
        return target.value;
      }
    }
    if (fitting !== undefined) return fitting.value;
  }
  const deeper = closest
    .filter((problems) => problems.every(({ path }) => path !== target.path))
    .sort((a, b) => a.length - b.length)[0];
  if (deeper !== undefined) work.problems.push(...deeper);
  else fail(work, target, [...new Set(branches.map(describeWanted))].slice(0, 12).join(" or "));
  return target.value;
}

function checkItems(work: Work, schema: JsonObject, target: Target & { value: Json[] }): Json {
  report(work, target.path, checkArray(schema, target.value, work.literals));
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
