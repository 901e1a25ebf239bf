import type { RE2JS } from "re2js";
import { HubError } from "../../core/error.ts";

/** Looks for an expression in lines. */
export interface LineExpression {
  /** How many characters of a line are looked at: fewer for an expression that takes long with each. */
  maxChars: number;
  /** Whether it is in these characters. */
  isIn(line: string): boolean;
}

const MAX_LINE_CHARS = 4000;
/** Characters, sets and groups of an expression with all its repeats written out. */
const MAX_WRITTEN_OUT = 2000;
/** Instructions times characters: a line takes some tens of milliseconds at most. */
const MAX_WORK = 1_000_000;

/** A literal, a class, a set, the beginning of a group, a count, or one character. */
const TOKEN =
  /\\Q[^]*?(?:\\E|$)|\\[pPx]\{[^}]*\}|\\[^]|\[\^?\]?(?:\[:\^?[a-z]+:\]|\\[^]|[^\]\\])*\]|\((?:\?(?:P?<[^>]*>|[A-Za-z-]*[:)]))?|\{(\d+)(?:,(\d*))?\}|[^]/gu;

/**
 * Reads an expression of RE2. Its time grows with line and expression, repeats written out: `(a{30}){30}` is 900 long, so that
 * there is a limit for that. Throws `invalid_request`.
 */
export async function lineExpression(
  pattern: string,
  { ignoreCase }: { ignoreCase: boolean },
): Promise<LineExpression> {
  const length = writtenOut(pattern);
  if (length > MAX_WRITTEN_OUT) {
    throw unusable(
      `it is ${length} long with its repeats written out, more than ${MAX_WRITTEN_OUT}`,
    );
  }
  const expression = await compile(pattern, ignoreCase);
  return {
    maxChars: Math.min(MAX_LINE_CHARS, Math.ceil(MAX_WORK / expression.programSize())),
    isIn: (line) => expression.matcher(line).find(),
  };
}

/** How long an expression is once `a{3}` is written as `aaa`. */
function writtenOut(pattern: string): number {
  const outer: number[] = [];
  let length = 0;
  let last = 0;
  for (const [token, least, most] of pattern.matchAll(TOKEN)) {
    if (least !== undefined) {
      const times = Math.max(1, Number(least), Number(most ?? 0));
      length += last * (times - 1);
      last *= times;
    } else if (token === ")" && outer.length > 0) {
      last = length + 1;
      length = last + (outer.pop() ?? 0);
    } else if (token.startsWith("(") && !token.endsWith(")")) {
      outer.push(length);
      length = last = 0;
    } else {
      last = token.startsWith("\\Q") ? token.length : 1;
      length += last;
    }
  }
  return outer.reduce((sum, one) => sum + one, length);
}

/** The package is loaded with the first expression. */
async function compile(pattern: string, ignoreCase: boolean): Promise<RE2JS> {
  const { RE2JS } = await import("re2js");
  try {
    return RE2JS.compile(pattern, ignoreCase ? RE2JS.CASE_INSENSITIVE : 0);
  } catch (error) {
    throw unusable(error instanceof Error ? error.message.slice(0, 200) : "unreadable");
  }
}

function unusable(why: string): HubError {
  return new HubError("invalid_request", `The expression cannot be used: ${why}`);
}
