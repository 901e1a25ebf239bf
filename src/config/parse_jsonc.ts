import { type Node, type ParseError, parseTree, printParseErrorCode } from "jsonc-parser";
import type { Json } from "../core/json.ts";
import { type ConfigPath, formatPath } from "./config_path.ts";
import type { ConfigProblem } from "./problem.ts";

/** What a text of JSON with comments holds. */
export interface ParsedJsonc {
  /** The value; null when the text is broken. */
  value: Json;
  /** Line, from 1, on which a setting stands, or for one that is missing, the nearest one around it. */
  lineOf(path: ConfigPath): number | undefined;
  /** Settings named twice, and names that no object may have. */
  problems: ConfigProblem[];
  /** Violations of the syntax. When there are any, nothing else can be said. */
  syntaxProblems: ConfigProblem[];
}

const MAX_SYNTAX_PROBLEMS = 20;

/**
 * Parses JSON with line and block comments and trailing commas. Never throws.
 * Problems tell what kind of thing came, never the text itself, which may be a key without its quotes.
 */
export function parseJsonc(text: string): ParsedJsonc {
  const source = text.startsWith("\uFEFF") ? text.slice(1) : text;
  const lineStarts = findLineStarts(source);
  const errors: ParseError[] = [];
  const root = parseTree(source, errors, { allowTrailingComma: true, disallowComments: false });
  const lines = new Map<string, number>();
  const problems: ConfigProblem[] = [];
  const broken = root === undefined || errors.length > 0;
  const value = broken ? null : toValue(root, [], { lineStarts, lines, problems });
  return {
    value,
    lineOf: (path) => findLine(path, lines),
    problems,
    syntaxProblems: errors.slice(0, MAX_SYNTAX_PROBLEMS).map((error) =>
      toProblem(error, source, lineStarts)
    ),
  };
}

interface Building {
  lineStarts: number[];
  lines: Map<string, number>;
  problems: ConfigProblem[];
}

function toValue(node: Node, path: ConfigPath, building: Building): Json {
  switch (node.type) {
    case "object":
      return toObject(node, path, building);
    case "array":
      return (node.children ?? []).map((child, index) => {
        const place = [...path, index];
        building.lines.set(formatPath(place), lineAt(child.offset, building.lineStarts));
        return toValue(child, place, building);
      });
    default:
      return node.value;
  }
}

function toObject(node: Node, path: ConfigPath, building: Building): Json {
  const members = new Map<string, Json>();
  for (const property of node.children ?? []) {
    const [key, value] = property.children ?? [];
    if (key === undefined || value === undefined) continue;
    const name = String(key.value);
    const place = [...path, name];
    const line = lineAt(key.offset, building.lineStarts);
    if (members.has(name)) {
      building.problems.push({
        path: formatPath(place),
        got: `the name a second time, after line ${building.lines.get(formatPath(place))}`,
        wanted: "each name once",
        line,
      });
      continue;
    }
    if (name === "__proto__") {
      building.problems.push({
        path: formatPath(place),
        got: "a name with a meaning of its own in JavaScript",
        wanted: "another name",
        line,
      });
      continue;
    }
    building.lines.set(formatPath(place), line);
    members.set(name, toValue(value, place, building));
  }
  return Object.fromEntries(members);
}

function toProblem(error: ParseError, source: string, lineStarts: number[]): ConfigProblem {
  const line = lineAt(error.offset, lineStarts);
  const column = error.offset - (lineStarts[line - 1] ?? 0) + 1;
  return {
    path: `line ${line}, column ${column}`,
    got: describeFound(error, source),
    wanted: describeExpected(error),
  };
}

function describeFound(error: ParseError, source: string): string {
  switch (printParseErrorCode(error.error)) {
    case "InvalidNumberFormat":
    case "UnexpectedEndOfNumber":
      return "an unfinished number";
    case "UnexpectedEndOfComment":
      return "the end of the file inside a comment";
    case "UnexpectedEndOfString":
      return "a text without its closing quote";
    case "InvalidUnicode":
    case "InvalidEscapeCharacter":
      return "an unknown escape in a text";
    case "InvalidCharacter":
      return "a control character in a text";
  }
  const found = source.slice(error.offset, error.offset + 1);
  if (found === "") return "the end of the file";
  if (/[{}[\]:,]/.test(found)) return JSON.stringify(found);
  if (found === '"') return "a text in double quotes";
  if (found === "'") return "a text in single quotes";
  return /[-0-9]/.test(found) ? "a number" : "a word without quotes";
}

function describeExpected(error: ParseError): string {
  switch (printParseErrorCode(error.error)) {
    case "InvalidSymbol":
    case "ValueExpected":
      return "a value: an object, a list, a text in double quotes, a number, true, false or null";
    case "InvalidNumberFormat":
    case "UnexpectedEndOfNumber":
      return "a number such as 10 or 0.5";
    case "PropertyNameExpected":
      return "a name in double quotes";
    case "ColonExpected":
      return "a colon";
    case "CommaExpected":
      return "a comma";
    case "CloseBraceExpected":
      return 'a closing "}"';
    case "CloseBracketExpected":
      return 'a closing "]"';
    case "EndOfFileExpected":
      return "the end of the file";
    case "InvalidCommentToken":
    case "UnexpectedEndOfComment":
      return "a comment // to the end of the line or between /* and */";
    case "UnexpectedEndOfString":
      return "a closing double quote on the same line";
    case "InvalidUnicode":
    case "InvalidEscapeCharacter":
      return 'one of \\" \\\\ \\/ \\b \\f \\n \\r \\t or \\u with four hex digits';
    case "InvalidCharacter":
      return "an escape such as \\n or \\t";
    default:
      return "JSON with comments";
  }
}

function findLine(path: ConfigPath, lines: ReadonlyMap<string, number>): number | undefined {
  for (let length = path.length; length > 0; length--) {
    const line = lines.get(formatPath(path.slice(0, length)));
    if (line !== undefined) return line;
  }
  return undefined;
}

function findLineStarts(source: string): number[] {
  const starts = [0];
  for (let at = source.indexOf("\n"); at !== -1; at = source.indexOf("\n", at + 1)) {
    starts.push(at + 1);
  }
  return starts;
}

function lineAt(offset: number, lineStarts: number[]): number {
  let low = 0;
  let high = lineStarts.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((lineStarts[middle] ?? 0) <= offset) low = middle + 1;
    else high = middle;
  }
  return low;
}
