import type { Json, JsonObject } from "../core/json.ts";
import { describeValue } from "./describe_value.ts";
import type { Literals } from "./literals.ts";
import type { PatternTest } from "./run_pattern.ts";

/** What is wrong with one value; the caller adds the path. */
export interface ValueProblem {
  wanted: string;
  got: string;
}

/** Length and pattern of a string. Lengths count code points (JSON Schema 2020-12, 6.3). */
export function checkString(
  schema: JsonObject,
  value: string,
  isFound: PatternTest,
): ValueProblem[] {
  const problems: ValueProblem[] = [];
  const { minLength, maxLength, pattern } = schema;
  if (typeof minLength === "number" || typeof maxLength === "number") {
    const length = countCodePoints(value);
    const got = `${length} characters`;
    if (typeof minLength === "number" && length < minLength) {
      problems.push({ wanted: `at least ${minLength} characters`, got });
    }
    if (typeof maxLength === "number" && length > maxLength) {
      problems.push({ wanted: `at most ${maxLength} characters`, got });
    }
  }
  if (typeof pattern === "string" && isFound(pattern, value) === false) {
    problems.push({ wanted: `a string matching ${pattern}`, got: describeValue(value) });
  }
  return problems;
}

/** Bounds and step of a number; understands the boolean `exclusiveMinimum` of draft 4. */
export function checkNumber(schema: JsonObject, value: number): ValueProblem[] {
  const problems: ValueProblem[] = [];
  const got = describeValue(value);
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema;
  const above = typeof exclusiveMinimum === "number"
    ? exclusiveMinimum
    : exclusiveMinimum === true
    ? minimum
    : undefined;
  const below = typeof exclusiveMaximum === "number"
    ? exclusiveMaximum
    : exclusiveMaximum === true
    ? maximum
    : undefined;
  if (typeof minimum === "number" && value < minimum) {
    problems.push({ wanted: `at least ${minimum}`, got });
  } else if (typeof above === "number" && value <= above) {
    problems.push({ wanted: `more than ${above}`, got });
  }
  if (typeof maximum === "number" && value > maximum) {
    problems.push({ wanted: `at most ${maximum}`, got });
  } else if (typeof below === "number" && value >= below) {
    problems.push({ wanted: `less than ${below}`, got });
  }
  if (typeof multipleOf === "number" && multipleOf > 0 && !isMultiple(value, multipleOf)) {
    problems.push({ wanted: `a multiple of ${multipleOf}`, got });
  }
  return problems;
}

/** Number and difference of an array's items. */
export function checkArray(
  schema: JsonObject,
  value: Json[],
  literals: Literals,
): ValueProblem[] {
  const problems: ValueProblem[] = [];
  const { minItems, maxItems, uniqueItems } = schema;
  const got = describeValue(value);
  if (typeof minItems === "number" && value.length < minItems) {
    problems.push({ wanted: `at least ${minItems} items`, got });
  }
  if (typeof maxItems === "number" && value.length > maxItems) {
    problems.push({ wanted: `at most ${maxItems} items`, got });
  }
  if (uniqueItems === true && literals.hasRepeated(value)) {
    problems.push({ wanted: "items that all differ", got: "an array with repeated items" });
  }
  return problems;
}

function countCodePoints(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

/** Binary fractions make 0.3 / 0.1 a hair off a whole number. */
function isMultiple(value: number, step: number): boolean {
  const quotient = value / step;
  return Math.abs(quotient - Math.round(quotient)) <= 1e-9 * Math.max(1, Math.abs(quotient));
}
