import { parsePattern, type PatternPart } from "./pattern_parts.ts";

/** Steps that are left for patterns; shared by all of one check. */
export interface PatternBudget {
  steps: number;
}

/** A regular expression that no text makes slow. */
export interface LinearPattern {
  /** How large it is: steps for each character, at most. */
  states: number;
  /** Tells whether it is found in a text; null when the budget does not reach to tell. */
  isFoundIn(text: string, budget: PatternBudget): boolean | null;
}

/** `{n,m}` writes its part out n to m times. */
const MAX_STATES = 20_000;

type State =
  | { kind: "set"; fits: SetTest; next: number }
  | { kind: "place"; holds: PlaceTest; next: number }
  | { kind: "fork"; next: number[] }
  | { kind: "found" };

type SetTest = (codePoint: number) => boolean;
type PlaceTest = (before: number | undefined, after: number | undefined) => boolean;

/**
 * Makes the test of a regular expression (flag `u`) that others wrote: all ways through it go forward together, so that time grows
 * with states times characters and no more. Null for one that is invalid, looks around, refers back to a group, or is too large.
 * RE2, which searches files, reads another dialect: classes, `.` and escapes of schemas would mean other characters there.
 */
export function createLinearPattern(pattern: string): LinearPattern | null {
  const part = parsePattern(pattern);
  const count = part === null ? Infinity : countStates(part);
  if (part === null || count > MAX_STATES) return null;
  let states: State[] | null = null;
  return {
    states: count,
    isFoundIn: (text, budget) => isFound(states ??= toStates(part), text, budget),
  };
}

/** As many as there will be, and one more for each part that needs none, which takes time all the same. */
function countStates(part: PatternPart): number {
  switch (part.kind) {
    case "set":
    case "place":
      return 1;
    case "sequence":
    case "choice":
      return part.parts.reduce((sum, each) => sum + countStates(each), 1);
    case "repeat": {
      const { min, max } = part;
      const each = countStates(part.part);
      return max === null ? each * (min + 1) + 1 : each * max + (max - min) + 1;
    }
  }
}

/** The last state is where to begin. */
function toStates(part: PatternPart): State[] {
  const states: State[] = [{ kind: "found" }];
  const tests = new Map<string, SetTest>();
  const testOf = (source: string) => {
    const test = tests.get(source) ?? fitsOf(source);
    tests.set(source, test);
    return test;
  };
  const put = (state: State) => states.push(state) - 1;
  const write = (part: PatternPart, next: number): number => {
    switch (part.kind) {
      case "set":
        return put({ kind: "set", fits: testOf(part.source), next });
      case "place":
        return put({ kind: "place", holds: PLACES[part.source], next });
      case "sequence":
        return part.parts.reduceRight((after, each) => write(each, after), next);
      case "choice":
        return put({ kind: "fork", next: part.parts.map((each) => write(each, next)) });
      case "repeat": {
        let at = next;
        if (part.max === null) {
          const loop: State & { kind: "fork" } = { kind: "fork", next: [next] };
          at = put(loop);
          loop.next.push(write(part.part, at));
        } else {
          for (let times = part.min; times < part.max; times++) {
            at = put({ kind: "fork", next: [next, write(part.part, at)] });
          }
        }
        for (let times = 0; times < part.min; times++) at = write(part.part, at);
        return at;
      }
    }
  };
  put({ kind: "fork", next: [write(part, 0)] });
  return states;
}

const isWord = (codePoint: number | undefined) =>
  codePoint !== undefined && codePoint < 128 && /\w/.test(String.fromCodePoint(codePoint));

const PLACES: Readonly<Record<(PatternPart & { kind: "place" })["source"], PlaceTest>> = {
  "^": (before) => before === undefined,
  "$": (_, after) => after === undefined,
  "\\b": (before, after) => isWord(before) !== isWord(after),
  "\\B": (before, after) => isWord(before) === isWord(after),
};

/** One code point alone cannot make an expression slow, so its own engine judges it. */
function fitsOf(source: string): SetTest {
  const one = new RegExp(`^(?:${source})$`, "u");
  const known = new Map<number, boolean>();
  return (codePoint) => {
    const before = known.get(codePoint);
    if (before !== undefined) return before;
    const fits = one.test(String.fromCodePoint(codePoint));
    if (codePoint < 256) known.set(codePoint, fits);
    return fits;
  };
}

function isFound(states: readonly State[], text: string, budget: PatternBudget): boolean | null {
  const seenAt = new Int32Array(states.length).fill(-1);
  let waiting: (State & { kind: "set" })[] = [];
  let before: number | undefined;
  budget.steps -= states.length;
  for (let at = 0;; at++) {
    const after = text.codePointAt(at);
    const here: typeof waiting = [];
    const open = [states.length - 1];
    for (const { fits, next } of waiting) {
      if (before !== undefined && fits(before)) open.push(next);
    }
    budget.steps -= waiting.length;
    for (let index = open.pop(); index !== undefined; index = open.pop()) {
      const state = states[index];
      if (state === undefined || seenAt[index] === at) continue;
      seenAt[index] = at;
      if (--budget.steps < 0) return null;
      if (state.kind === "found") return true;
      if (state.kind === "fork") open.push(...state.next);
      else if (state.kind === "set") here.push(state);
      else if (state.holds(before, after)) open.push(state.next);
    }
    if (after === undefined) return false;
    before = after;
    waiting = here;
    if (after > 0xffff) at++;
  }
}
