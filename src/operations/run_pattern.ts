import { createLinearPattern, type LinearPattern } from "./linear_pattern.ts";

/** How regular expressions of a schema are run: by the engine of the language, in linear time, or not at all. */
export type PatternMode = "native" | "linear" | "ignore";

/** Whether a pattern is found in a text; undefined when that is not to be told. */
export type PatternTest = (pattern: string, text: string) => boolean | undefined;

/** A pattern of one's own is still not run on texts longer than this: time grows with the text. */
const MAX_PATTERN_TEXT = 10_000;
const MAX_STEPS = 1_000_000;

/** Makes the test of patterns for checks that follow each other; each has its own steps, and `onSpent` hears when they are used up. */
export function createPatternTests(mode: PatternMode): (onSpent: () => void) => PatternTest {
  if (mode === "native") return () => runNative;
  if (mode === "ignore") return () => runNone;
  const known = new Map<string, LinearPattern | null>();
  return (onSpent) => {
    const budget = { steps: MAX_STEPS };
    return (pattern, text) => {
      let test = known.get(pattern);
      if (test === undefined) known.set(pattern, test = createLinearPattern(pattern));
      const found = test?.isFoundIn(text, budget);
      if (found === null) onSpent();
      return found ?? undefined;
    };
  };
}

function runNone(pattern: string): boolean | undefined {
  return pattern === "^(.*)$" || pattern === ".*" || pattern === "" ? true : undefined;
}

function runNative(pattern: string, text: string): boolean | undefined {
  if (text.length > MAX_PATTERN_TEXT) return undefined;
  try {
    return new RegExp(pattern, "u").test(text);
  } catch {
    return undefined;
  }
}
