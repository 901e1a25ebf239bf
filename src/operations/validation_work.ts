import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import type { ToolInputProblem } from "../core/tool.ts";
import { describeValue } from "./describe_value.ts";
import type { Literals } from "./literals.ts";
import type { PatternTest } from "./run_pattern.ts";
import type { ResolveRef } from "./schema_ref.ts";

/** One check under way. */
export interface Work {
  resolve: ResolveRef;
  coerce: boolean;
  dropNulls: boolean;
  exact: boolean;
  /** Whether `not` is asked; where patterns are skipped it would be wrong. */
  negates: boolean;
  isFound: PatternTest;
  /**
   * Checks left, and steps in them; shared by all branches, so that no schema can make a check endless. `isSpent` when some
   * were left out.
   */
  budget: { left: number; steps: number; nesting: number; isSpent: boolean };
  literals: Literals;
  problems: ToolInputProblem[];
  /** Holds a value to a schema: returns it, coerced where needed; problems go to `work`. */
  check(work: Work, target: Target): Json;
}

/** One schema applied to one value at one place. */
export interface Target {
  schema: Json | undefined;
  value: Json;
  path: string;
}

const BOUNDED = "a value that can be checked in bounded time";
/** More say nothing new; without a bound their text could fill the memory. */
const MAX_KEPT = 1000;
/** What one property or name costs: as much as a few dozen characters. */
const STEPS_EACH = 20;
const CHARS_PER_STEP = 8;

/** Says that the value is too much to be checked. */
export function failBounded(work: Work, target: Target): void {
  work.budget.isSpent = true;
  fail(work, target, BOUNDED);
}

/** Takes what a check looks at from the budget; false when it does not reach. */
export function spend({ budget }: Pick<Work, "budget">, { things = 0, chars = 0 }): boolean {
  budget.steps -= things * STEPS_EACH + Math.ceil(chars / CHARS_PER_STEP);
  return budget.steps >= 0;
}

/** Whether the budget reaches for what one schema looks at in one value, beside the schemas and properties in it. */
export function spendOn(work: Work, schema: JsonObject, value: Json): boolean {
  const { required, dependentRequired, dependentSchemas, dependencies } = schema;
  let things = lengthOf(required);
  for (const rules of [dependentRequired, dependentSchemas, dependencies]) {
    if (!isJsonObject(rules)) continue;
    for (const rule of Object.values(rules)) things += 1 + lengthOf(rule);
  }
  if (typeof value === "string") return spend(work, { things, chars: value.length });
  // To look at a member costs less than to check it.
  const members = Array.isArray(value)
    ? value.length
    : isJsonObject(value)
    ? Object.keys(value).length
    : 0;
  return spend(work, { things, chars: members * CHARS_PER_STEP });
}

function lengthOf(value: Json | undefined): number {
  return Array.isArray(value) ? value.length : 0;
}

/** Says that a value is wrong. */
export function fail(work: Work, target: Target, wanted: string): void {
  if (work.problems.length >= MAX_KEPT) return;
  work.problems.push({ path: target.path, wanted, got: describeValue(target.value) });
}

/** Says what is wrong with the value at one place. */
export function report(work: Work, path: string, found: { wanted: string; got: string }[]): void {
  if (work.problems.length >= MAX_KEPT) return;
  for (const problem of found) work.problems.push({ path, ...problem });
}

/** Checks beside the work: its problems are not those of the value. */
export function attempt(work: Work, target: Target, coerce: boolean) {
  const inner: Work = {
    ...work,
    coerce: work.coerce && coerce,
    dropNulls: work.dropNulls && coerce,
    problems: [],
  };
  return { value: work.check(inner, target), problems: inner.problems };
}
