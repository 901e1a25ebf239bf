import { HubError } from "../../core/error.ts";

/** Tells whether a path fits a pattern. */
export type PathMatcher = (path: string) => boolean;

const MAX_ALTERNATIVES = 64;
const MAX_PATTERN = 500;

/**
 * A pattern over paths: `*` is any text within a name, `?` one character, `**` any folders, `{a,b}` one of several and
 * `[a-z]` one character of a set. One without a slash fits names in any folder. Takes time by the length of pattern and
 * path only, whatever they are. Throws `invalid_request` for what is no pattern.
 */
export function pathMatcher(pattern: string): PathMatcher {
  if (pattern.length > MAX_PATTERN) throw wrong(pattern, `is longer than ${MAX_PATTERN}`);
  const anywhere = !pattern.includes("/");
  const choices = alternatives(pattern).map((one) => {
    const parts = one.replace(/^\.?\//, "").split("/").filter((part) => part !== "");
    return (anywhere ? ["**", ...parts] : parts).map(toPart);
  });
  return (path) => {
    const names = path.split("/").map((name) => [...name]);
    return choices.some((parts) => fits(names, parts));
  };
}

/** Tells whether an item fits; null stands for any number of items. */
type Part<T> = ((item: T) => boolean) | null;

/** Whether the items fit the parts, in their order: greedy, with one way back. */
function fits<T>(items: readonly T[], parts: readonly Part<T>[]): boolean {
  let [item, part, lastAny, from] = [0, 0, -1, 0];
  while (item < items.length) {
    const [now, wanted] = [items[item], parts[part]];
    if (wanted === null) {
      lastAny = part++;
      from = item;
    } else if (now !== undefined && wanted?.(now) === true) {
      item++;
      part++;
    } else if (lastAny >= 0) {
      part = lastAny + 1;
      item = ++from;
    } else {
      return false;
    }
  }
  while (parts[part] === null) part++;
  return part === parts.length;
}

function toPart(part: string): Part<readonly string[]> {
  if (part === "**") return null;
  const tokens = (part.match(/\[[^\]]+\]|[^]/gu) ?? []).map(toToken);
  return (name) => fits(name, tokens);
}

function toToken(token: string): Part<string> {
  if (token === "*") return null;
  if (token === "?") return () => true;
  if (token.length < 3 || !token.startsWith("[")) return (character) => token === character;
  const negated = token[1] === "!" || token[1] === "^";
  const set = [...token.slice(negated ? 2 : 1, -1)];
  return (character) => isOf(set, character) !== negated;
}

function isOf(set: readonly string[], character: string): boolean {
  for (let at = 0; at < set.length; at++) {
    const [from = "", dash, to] = set.slice(at, at + 3);
    if (dash === "-" && to !== undefined) {
      if (from <= character && character <= to) return true;
      at += 2;
    } else if (from === character) {
      return true;
    }
  }
  return false;
}

/** The patterns that `{a,b}` stands for. */
function alternatives(pattern: string): string[] {
  let done: string[] = [];
  let open = [pattern];
  while (open.length > 0) {
    const next: string[] = [];
    for (const one of open) {
      const found = /\{([^{}]*)\}/.exec(one);
      if (found === null) done = [...done, one];
      else {
        const [group, inner = ""] = found;
        const [before, after] = [one.slice(0, found.index), one.slice(found.index + group.length)];
        next.push(...inner.split(",").map((choice) => before + choice + after));
      }
    }
    if (next.length + done.length > MAX_ALTERNATIVES) {
      throw wrong(pattern, `stands for more than ${MAX_ALTERNATIVES} patterns`);
    }
    open = next;
  }
  return done;
}

function wrong(pattern: string, why: string): HubError {
  return new HubError(
    "invalid_request",
    `The pattern ${JSON.stringify(pattern.slice(0, 100))} ${why}`,
  );
}
