import { isJsonObject } from "../core/json.ts";
import type { ToolOutput } from "../core/tool.ts";
import { describeStreams } from "../operations/shell/shell.ts";
import { toModelView } from "../operations/tool_output.ts";

/** Lines of one result that are shown at most: the first and the last, half of them each. */
const MAX_LINES = 60;
const MAX_LINE_CHARS = 500;
/** Longest text that is remembered to be shown only once. */
const MAX_SEEN_CHARS = 100_000;
const STREAMS = ["stdout", "stderr"] as const;

/** What a call gives, as lines for a terminal: what a program writes while it runs, and the rest when it has ended. */
export class CallOutput {
  readonly #rest = { stdout: "", stderr: "" };
  readonly #seen = { stdout: "", stderr: "" };

  /** What came while it runs; null when that is no output of a program. */
  add(output: ToolOutput): string[] | null {
    if (!isJsonObject(output)) return null;
    const lines: string[] = [];
    for (const stream of STREAMS) {
      const text = output[stream];
      if (typeof text !== "string") continue;
      if (this.#seen[stream].length <= MAX_SEEN_CHARS) this.#seen[stream] += text;
      const whole = (this.#rest[stream] + text).split(/\r?\n/);
      // What is cut from a line when it is shown is not kept.
      this.#rest[stream] = (whole.pop() ?? "").slice(0, MAX_LINE_CHARS);
      lines.push(...whole.map((line) => lineOf(stream, line)));
    }
    return lines.length > 0 || STREAMS.some((stream) => stream in output) ? cut(lines) : null;
  }

  /** Its result, headed by its first line. What was shown while it ran is not shown again. */
  end(result: string): { before: string[]; head: string; lines: string[] } {
    const [head = "", ...body] = result.split(/\r?\n/);
    const before = STREAMS.flatMap((stream) =>
      this.#rest[stream] === "" ? [] : [cutLine(lineOf(stream, this.#rest[stream]))]
    );
    const isShown = body.length > 0 &&
      describeStreams(this.#seen).join("\n").split(/\r?\n/).join("\n") === body.join("\n");
    return { before, head: cutLine(head), lines: isShown ? [] : cut(body.map(indent)) };
  }
}

/** A result as text. */
export function textOfOutput(output: ToolOutput): string {
  return toModelView(output).text;
}

function lineOf(stream: typeof STREAMS[number], line: string): string {
  return stream === "stdout" ? `    | ${line}` : `    ! ${line}`;
}

function indent(line: string): string {
  return `    ${line}`;
}

function cut(lines: readonly string[]): string[] {
  const shown = lines.length <= MAX_LINES ? lines : [
    ...lines.slice(0, MAX_LINES / 2),
    `    (${lines.length - MAX_LINES} lines are left out)`,
    ...lines.slice(-MAX_LINES / 2),
  ];
  return shown.map(cutLine);
}

function cutLine(line: string): string {
  return line.length <= MAX_LINE_CHARS ? line : `${line.slice(0, MAX_LINE_CHARS)} …`;
}
