import assert from "node:assert/strict";
import { createShow } from "../../src/cli/show_event.ts";
import type { HubEvent } from "../../src/core/event.ts";
import type { Json } from "../../src/core/json.ts";
import { steeringEvent } from "../../src/core/steering.ts";

const ESCAPES = "a\tb\n\x1b]0;title\x07\x9b2J\u202ec";
const ESCAPED = "a\tb\n\\u001b]0;title\\u0007\\u009b2J\\u202ec";
const said = { steeringId: "steer_1", kind: "steer", text: ESCAPES } as const;
const events: HubEvent[] = [
  { type: "text-delta", id: "p0", delta: ESCAPES },
  steeringEvent(said, "applied"),
  { type: "error", errorText: ESCAPES, code: "upstream_error", retryable: false },
];

function shown(isTerminal: boolean) {
  const out: string[] = [];
  const show = createShow({
    isTerminal,
    screen: { printRaw: (text) => out.push(text), printError: (line) => out.push(line) },
  });
  events.forEach(show);
  return out;
}

Deno.test("what models, users and providers say steers no terminal", () => {
  const lines = [`said (steer, applied): ${ESCAPED}`, `error upstream_error: ${ESCAPED}`];
  assert.deepEqual(shown(true), [ESCAPED, ...lines]);
  assert.deepEqual(shown(false), [ESCAPES, ...lines]);
});

/** The lines that are shown of a call with this progress and this end. */
function shownOf(progress: Json[], end: { output: Json } | { errorText: string }): string[] {
  const out: string[] = [];
  const screen = { printRaw() {}, printError: (line: string) => void out.push(line) };
  const show = createShow({ isTerminal: true, screen });
  const toolCallId = "call_1";
  show({ type: "tool-input-available", toolCallId, toolName: "shell.run", input: {} });
  for (const output of progress) {
    show({ type: "tool-output-available", toolCallId, output, preliminary: true });
  }
  if ("output" in end) show({ type: "tool-output-available", toolCallId, output: end.output });
  else show({ type: "tool-output-error", toolCallId, errorText: end.errorText });
  return out.slice(1);
}

Deno.test("what a program writes is shown as lines, once, and what is not seen as escapes", () => {
  const output = "exit code 0 after 12 ms\n--- stdout\none\u200b\ntwo\n--- stderr\nodd\x1b[2J";
  assert.deepEqual(shownOf([], { output }), [
    "  shell.run => exit code 0 after 12 ms",
    "    --- stdout",
    "    one\\u200b",
    "    two",
    "    --- stderr",
    "    odd\\u001b[2J",
  ]);
  const progress = [{ stdout: "one\u200b\ntw" }, { stdout: "o\n", stderr: "odd\x1b[2J" }];
  assert.deepEqual(shownOf(progress, { output }), [
    "    | one\\u200b",
    "    | two",
    "    ! odd\\u001b[2J",
    "  shell.run => exit code 0 after 12 ms",
  ]);
  // More than was told while it ran is shown whole.
  assert.equal(shownOf(progress.slice(1), { output }).length, 8);
  const errorText = "It did not end within 10 ms\n--- stdout\none\r\ntwo";
  assert.deepEqual(shownOf([{ stdout: "one\r\ntwo" }], { errorText }), [
    "    | one",
    "    | two",
    "  shell.run => failed: It did not end within 10 ms",
  ]);
});

Deno.test("no result can fake a line of the hub, or fill the terminal", () => {
  const fake = shownOf([], { output: "done\nshell.run (risk low) waits until tomorrow" });
  assert.deepEqual(fake, [
    "  shell.run => done",
    "    shell.run (risk low) waits until tomorrow",
  ]);
  const long = shownOf([], { output: Array.from({ length: 1000 }, (_, at) => `${at}`).join("\n") });
  assert.equal(long.length, 62);
  assert.equal(long[31], "    (939 lines are left out)");
  assert.equal(long.at(-1), "    999");
  assert.ok((shownOf([], { output: "x".repeat(100_000) })[0]?.length ?? 0) < 600);
  assert.deepEqual(shownOf([], { output: { celsius: 7 } }), ['  shell.run => {"celsius":7}']);
  assert.deepEqual(shownOf([{ progress: 1 }], { output: "" }), [
    '  shell.run => {"progress":1}',
    "  shell.run => ",
  ]);
});

Deno.test("what a program writes without end of line is cut as any line", () => {
  const piece = "x".repeat(400);
  const text = `exit code 0 after 12 ms\n--- stdout\n${piece.repeat(3)}`;
  const lines = shownOf([{ stdout: piece }, { stdout: piece }, { stdout: piece }], {
    output: text,
  });
  const written = lines.filter((line) => line.startsWith("    | "));
  assert.deepEqual(written, [`    | ${"x".repeat(494)} …`]);
});
