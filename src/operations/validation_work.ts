import type { Json } from "../core/json.ts";
import type { ToolInputProblem } from "../core/tool.ts";
import { describeValue } from "./describe_value.ts";
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
  /** Checks left; shared by all branches, so that no schema can make a check endless. `isSpent` when some were left out. */
  budget: { left: number; nesting: number; isSpent: boolean };
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

/** Says that a value is wrong. */
export function fail(work: Work, target: Target, wanted: string): void {
  work.problems.push({ path: target.path, wanted, got: describeValue(target.value) });
}

/** Says what is wrong with the value at one place. */
export function report(work: Work, path: string, found: { wanted: string; got: string }[]): void {
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
