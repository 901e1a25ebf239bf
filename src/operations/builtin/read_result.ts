import { HubError } from "../../core/error.ts";
import { defineOperation, type Operation, Type } from "../operation.ts";
import type { ToolOutput } from "../../core/tool.ts";
import { DEFAULT_RESULT_BOUNDS, type ResultBounds, roomWithin } from "../result_bounds.ts";
import { lineRange } from "../line_range.ts";
import { textOf, toToolContent } from "../tool_output.ts";
import { lineSpans, utf8Length } from "../text_lines.ts";

/** Finds the kept text of a result; null unless it belongs to this tenant's session. */
export type ReadBlob = (
  ref: string,
  scope: { tenantId: string; sessionId: string },
) => Promise<string | null>;

/** Finds what a call gave back, by the call's id; null unless it belongs to this tenant's session. */
export type ReadOutcome = (
  ref: string,
  scope: { tenantId: string; sessionId: string },
) => Promise<{ output: ToolOutput | null; errorText: string | null } | null>;

const DEFAULT_LINES = 200;

/** `hub.read_result`: reads what was left out of a long tool result, and results that were left out whole. */
export function createReadResult(
  { readBlob, readOutcome, results = DEFAULT_RESULT_BOUNDS }: {
    readBlob: ReadBlob;
    readOutcome?: ReadOutcome;
    results?: ResultBounds;
  },
): Operation {
  const room = roomWithin(results);
  return defineOperation({
    namespace: "hub",
    name: "read_result",
    description:
      "Reads parts of a tool result that was too long to show whole. Such a result says " +
      "what is left out and gives a ref. Read on by offset and limit, or find lines with grep.",
    input: Type.Object({
      ref: Type.String({
        minLength: 1,
        maxLength: 200,
        description: "The ref the cut result names",
      }),
      ...lineRange({ most: room.lines, byDefault: DEFAULT_LINES }),
      grep: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 500,
          description: "Show only lines that contain this text; upper and lower case are the same",
        }),
      ),
    }),
    effect: "pure",
    inRunsOnly: true,
    async run({ ref, offset = 1, limit = DEFAULT_LINES, grep }, { principal, sessionId }) {
      const scope = { tenantId: principal.tenantId, sessionId };
      const text = await readBlob(ref, scope) ?? readable(await readOutcome?.(ref, scope));
      if (text === null) {
        throw new HubError(
          "not_found",
          `No kept result ${
            JSON.stringify(ref)
          } in this session; use the ref that a cut result names`,
        );
      }
      return showLines(text, {
        offset,
        limit,
        maxBytes: room.bytes,
        ...grep === undefined ? {} : { grep },
      });
    },
  });
}

/** A kept outcome as text whose lines can be read one by one. */
function readable(outcome: Awaited<ReturnType<ReadOutcome>> | undefined): string | null {
  if (outcome === null || outcome === undefined) return null;
  const { output, errorText } = outcome;
  if (errorText !== null || output === null) return errorText;
  return toToolContent(output).map((piece) =>
    piece.type === "json" ? JSON.stringify(piece.value, null, 1) : textOf(piece)
  ).join("\n");
}

/** Numbered lines from `offset` (1 is the first), at most `limit`, and a remark on how to go on. */
export function showLines(
  text: string,
  options: { offset: number; limit: number; maxBytes: number; grep?: string },
): string {
  const spans = lineSpans(text);
  const needle = options.grep?.toLowerCase();
  const shown: string[] = [];
  let bytes = 0;
  let at = options.offset;
  for (; at <= spans.length && shown.length < options.limit; at++) {
    const span = spans[at - 1];
    const line = span === undefined ? "" : text.slice(span.start, span.end);
    if (needle !== undefined && !line.toLowerCase().includes(needle)) continue;
    const numbered = `${at}: ${line}`;
    bytes += utf8Length(numbered) + 1;
    if (bytes > options.maxBytes) break;
    shown.push(numbered);
  }
  const what = needle === undefined ? "lines" : "matching lines";
  const rest = at > spans.length ? "that is the end" : `go on with offset ${at}`;
  return [
    ...shown,
    `(${shown.length} ${what} of ${spans.length} lines from ${options.offset}; ${rest})`,
  ]
    .join("\n");
}
