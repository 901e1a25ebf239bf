import { utf8Length } from "./text_lines.ts";

/** Differences between two texts in the form of `diff -u`. */
export interface UnifiedDiff {
  /** Empty when nothing differs. */
  diff: string;
  /** Whether lines, or ends of long lines, were left out of it. */
  isCut: boolean;
}

/** A line that both have, that is taken away, or that is new. */
interface Line {
  sign: " " | "-" | "+";
  text: string;
}

const CONTEXT = 3;
/** Edits beyond which the shortest way is not looked for: its cost is their square. */
const MAX_EDITS = 400;
const MAX_LINE_CHARS = 1000;
const NO_END = "\\ No newline at end of file";

/**
 * Compares two texts line by line (Myers 1986), null being a file that is not there. Between texts that differ much, what
 * stands between their common ends is replaced as a whole. Bounded in time and in bytes, which packages for it are not.
 */
export function unifiedDiff(
  before: string | null,
  after: string,
  { path, maxBytes }: { path: string; maxBytes: number },
): UnifiedDiff {
  if (before === after) return { diff: "", isCut: false };
  const [old, now] = [splitLines(before ?? ""), splitLines(after)];
  const head = [before === null ? "--- /dev/null" : `--- a/${path}`, `+++ b/${path}`];
  let bytes = utf8Length(head.join("\n"));
  let isCut = false;
  const shown = [...head];
  for (const line of hunksOf(compare(old, now))) {
    const isLong = line.length > MAX_LINE_CHARS;
    const text = isLong ? `${line.slice(0, MAX_LINE_CHARS).toWellFormed()}…` : line;
    bytes += utf8Length(text) + 1;
    isCut ||= isLong || bytes > maxBytes;
    if (bytes > maxBytes) break;
    shown.push(text);
  }
  return { diff: shown.join("\n"), isCut };
}

/** Lines with their ends, so that a text without a last one differs from one with it. */
function splitLines(text: string): string[] {
  return text === "" ? [] : text.split(/(?<=\n)/);
}

function compare(old: readonly string[], now: readonly string[]): Line[] {
  const shorter = Math.min(old.length, now.length);
  let start = 0;
  while (start < shorter && old[start] === now[start]) start++;
  let end = 0;
  while (end < shorter - start && old.at(-1 - end) === now.at(-1 - end)) end++;
  const same = (text: string): Line => ({ sign: " ", text });
  return [
    ...old.slice(0, start).map(same),
    ...compareMiddle(old.slice(start, old.length - end), now.slice(start, now.length - end)),
    ...old.slice(old.length - end).map(same),
  ];
}

function compareMiddle(old: readonly string[], now: readonly string[]): Line[] {
  const trace = findShortest(old, now);
  if (trace === null) {
    return [
      ...old.map((text): Line => ({ sign: "-", text })),
      ...now.map((text): Line => ({ sign: "+", text })),
    ];
  }
  const lines: Line[] = [];
  let [x, y] = [old.length, now.length];
  for (let edits = trace.length - 1; edits >= 0; edits--) {
    const reach = trace[edits] ?? new Map<number, number>();
    const diagonal = x - y;
    const [left, right] = [reach.get(diagonal - 1) ?? -1, reach.get(diagonal + 1) ?? -1];
    const isDown = diagonal === -edits || (diagonal !== edits && left < right);
    const from = edits === 0 ? 0 : isDown ? right : left;
    const fromY = edits === 0 ? 0 : from - (isDown ? diagonal + 1 : diagonal - 1);
    while (x > from && y > fromY) {
      lines.push({ sign: " ", text: old[--x] ?? "" });
      y--;
    }
    if (edits === 0) break;
    if (isDown) lines.push({ sign: "+", text: now[--y] ?? "" });
    else lines.push({ sign: "-", text: old[--x] ?? "" });
  }
  return lines.reverse();
}

/** For each number of edits how far each diagonal was reached before it; null when there are too many. */
function findShortest(
  old: readonly string[],
  now: readonly string[],
): Map<number, number>[] | null {
  const trace: Map<number, number>[] = [];
  let reach = new Map([[1, 0]]);
  for (let edits = 0; edits <= Math.min(MAX_EDITS, old.length + now.length); edits++) {
    trace.push(reach);
    const next = new Map<number, number>();
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      const [left, right] = [reach.get(diagonal - 1) ?? -1, reach.get(diagonal + 1) ?? -1];
      const isDown = diagonal === -edits || (diagonal !== edits && left < right);
      let x = isDown ? right : left + 1;
      let y = x - diagonal;
      while (x < old.length && y < now.length && old[x] === now[y]) {
        x++;
        y++;
      }
      next.set(diagonal, x);
      if (x >= old.length && y >= now.length) return trace;
    }
    reach = next;
  }
  return null;
}

/** The lines of hunks with their heads: changes with a few lines around them. */
function* hunksOf(lines: readonly Line[]): Generator<string> {
  const changes = lines.flatMap(({ sign }, at) => sign === " " ? [] : [at]);
  let [oldAt, newAt, read] = [1, 1, 0];
  const pass = (to: number) => {
    for (; read < to; read++) {
      if (lines[read]?.sign !== "+") oldAt++;
      if (lines[read]?.sign !== "-") newAt++;
    }
  };
  for (let at = 0; at < changes.length;) {
    let last = at;
    while ((changes[last + 1] ?? Infinity) - (changes[last] ?? 0) <= 2 * CONTEXT + 1) last++;
    const from = Math.max(0, (changes[at] ?? 0) - CONTEXT);
    const hunk = lines.slice(from, (changes[last] ?? 0) + CONTEXT + 1);
    pass(from);
    const count = (sign: Line["sign"]) => hunk.filter((line) => line.sign !== sign).length;
    yield `@@ -${range(oldAt, count("+"))} +${range(newAt, count("-"))} @@`;
    for (const { sign, text } of hunk) {
      yield `${sign}${text.endsWith("\n") ? text.slice(0, -1) : text}`;
      if (!text.endsWith("\n")) yield NO_END;
    }
    at = last + 1;
  }
}

function range(from: number, count: number): string {
  return count === 1 ? `${from}` : `${count === 0 ? from - 1 : from},${count}`;
}
