import { HubError } from "../core/error.ts";
import { type ConfigPath, formatPath } from "./config_path.ts";

/** One mistake of a configuration; none of its texts holds a secret. */
export interface ConfigProblem {
  /** The setting, as `formatPath` writes it, or the place in the file. */
  path: string;
  /** What came. */
  got: string;
  /** What belongs there. */
  wanted: string;
  /** Line in the file, from 1. */
  line?: number;
  /** The environment variable that the value came from. */
  variable?: string;
}

/** Where settings came from, for the benefit of whoever has to mend them. */
export interface Origins {
  /** Line of a setting in the file, from 1. */
  lineOf(path: ConfigPath): number | undefined;
  /** The environment variable that overrode a setting. */
  variableOf(path: ConfigPath): string | undefined;
}

/** Collects mistakes, at most one for a setting: the first one found explains those that follow from it. */
export interface ProblemList {
  add(path: ConfigPath, mistake: { got: string; wanted: string }): void;
  /** Adds what another part of the loader found, already with its place. */
  take(problems: readonly ConfigProblem[]): void;
  /** True when this very setting is known to be wrong. */
  has(path: ConfigPath): boolean;
  /** True when this setting, or one inside it, is known to be wrong. */
  hasWithin(path: ConfigPath): boolean;
  readonly all: readonly ConfigProblem[];
}

/** Makes an empty list. */
export function createProblemList(origins: Origins): ProblemList {
  const all: ConfigProblem[] = [];
  const seen = new Set<string>();
  const above = new Set<string>();
  return {
    all,
    take: (problems) => void all.push(...problems),
    add(path, { got, wanted }) {
      const text = formatPath(path);
      if (seen.has(text)) return;
      seen.add(text);
      for (let length = 0; length < path.length; length++) {
        above.add(formatPath(path.slice(0, length)));
      }
      const line = origins.lineOf(path);
      const variable = origins.variableOf(path);
      all.push({
        path: text,
        got,
        wanted,
        ...(variable === undefined ? line === undefined ? {} : { line } : { variable }),
      });
    },
    has: (path) => seen.has(formatPath(path)),
    hasWithin: (path) => seen.has(formatPath(path)) || above.has(formatPath(path)),
  };
}

/** The error that names every mistake, one a line, in the order of the file. */
export function invalidConfiguration(
  source: string | null,
  problems: readonly ConfigProblem[],
): HubError {
  const count = problems.length === 1 ? "1 mistake" : `${problems.length} mistakes`;
  const ordered = [...problems].sort((a, b) => lineOrLast(a) - lineOrLast(b));
  const lines = ordered.map((problem) => `  ${describeProblem(problem)}`);
  return new HubError(
    "invalid_configuration",
    `${source ?? "The environment"} has ${count}:\n${lines.join("\n")}`,
    { details: { problems: ordered } },
  );
}

function lineOrLast(problem: ConfigProblem): number {
  return problem.line ?? Number.MAX_SAFE_INTEGER;
}

/** One mistake in a line. */
export function describeProblem({ path, got, wanted, line, variable }: ConfigProblem): string {
  const place = variable === undefined
    ? line === undefined ? "" : ` (line ${line})`
    : ` (from ${variable})`;
  return `${path}${place}: got ${got}, wanted ${wanted}`;
}
