import { readCompaction } from "../core/context_events.ts";
import { readPreflight } from "../core/preflight.ts";
import type { FinishReason, HubEvent } from "../core/event.ts";
import { readQuestion } from "../core/run_question.ts";
import { readSteering } from "../core/steering.ts";
import { makeSafe } from "../telemetry/make_safe.ts";
import { EXIT } from "./exit_codes.ts";
import { printError, printRaw } from "./print.ts";
import { CallOutput, textOfOutput } from "./show_output.ts";
import { showPreview } from "./show_preview.ts";

/** Where events are shown. */
export interface Screen {
  /** Words of the model, as they come. */
  printRaw(text: string): void;
  /** A line about everything else. */
  printError(line: string): void;
}

/** What text on a terminal may have of what `makeSafe` takes away. */
const KEEPS = "\n\t";
const MAX_SCHEMA_CHARS = 1000;

/**
 * Shows the events of one run to people: its words on stdout as they come, everything else on stderr; results stand
 * under the name of their tool, since calls end in any order. Nothing in it steers a terminal; a file or a pipe gets the
 * words as they are.
 */
export function createShow(
  { isTerminal, screen = { printRaw, printError } }: { isTerminal: boolean; screen?: Screen },
): (event: HubEvent) => void {
  const names = new Map<string, string>();
  const outputs = new Map<string, CallOutput>();
  let runId = "";
  const safe: Screen = {
    printRaw: (text) => screen.printRaw(isTerminal ? makeSafe(text, { keeps: KEEPS }) : text),
    printError: (line) => screen.printError(makeSafe(line, { keeps: KEEPS })),
  };
  return (event) => {
    if (event.type === "start") runId = event.runId ?? runId;
    if ("toolName" in event) names.set(event.toolCallId, event.toolName);
    const nameOf = (toolCallId: string) => names.get(toolCallId) ?? toolCallId;
    const outputOf = (toolCallId: string) => {
      const output = outputs.get(toolCallId) ?? new CallOutput();
      outputs.set(toolCallId, output);
      return output;
    };
    show(event, { ...safe, runId, nameOf, outputOf });
  };
}

function show(
  event: HubEvent,
  { printRaw, printError, runId, nameOf, outputOf }: Screen & {
    runId: string;
    nameOf(toolCallId: string): string;
    outputOf(toolCallId: string): CallOutput;
  },
): void {
  const showResult = (toolCallId: string, mark: string, text: string) => {
    const { before, head, lines } = outputOf(toolCallId).end(text);
    for (const line of [...before, `  ${nameOf(toolCallId)} => ${mark}${head}`, ...lines]) {
      printError(line);
    }
  };
  switch (event.type) {
    case "text-delta":
      return printRaw(event.delta);
    case "text-end":
      return printRaw("\n");
    case "tool-input-available":
      return printError(`tool ${event.toolName} ${JSON.stringify(event.input).slice(0, 300)}`);
    case "tool-output-available": {
      const { toolCallId, output, preliminary } = event;
      const written = preliminary === true ? outputOf(toolCallId).add(output) : null;
      return written === null
        ? showResult(toolCallId, "", textOfOutput(output))
        : written.forEach(printError);
    }
    case "tool-input-error":
    case "tool-output-error":
    case "tool-output-denied":
      return showResult(event.toolCallId, "failed: ", event.errorText);
    case "tool-approval-request":
      if (event.tainted !== undefined) {
        printError(`  the run has read what others wrote: ${event.tainted.join(", ")}`);
      }
      for (const line of event.preview === undefined ? [] : showPreview(event.preview)) {
        printError(`  | ${line}`);
      }
      return printError(
        `  ${event.toolName} (risk ${event.risk}) waits until ${event.expiresAt} for: loophub runs approve ${runId} ${event.approvalId} (or deny)`,
      );
    case "tool-approval-response":
      return printError(
        `  ${event.approvalId} ${event.approved ? "approved" : "denied"}${
          event.reason === undefined ? "" : `: ${event.reason}`
        }`,
      );
    case "data": {
      const said = readSteering(event);
      if (said !== null) printError(`said (${said.kind}, ${said.state}): ${said.text}`);
      const question = readQuestion(event);
      if (question !== null) printError(describeQuestion(runId, question));
      const plan = readPreflight(event);
      if (plan !== null) printError(`plan: ${JSON.stringify(plan.steps)}`);
      const shorter = readCompaction(event);
      if (shorter !== null) {
        printError(
          `the conversation was made shorter: ${shorter.beforeTokens} => ${shorter.afterTokens} tokens`,
        );
      }
      return;
    }
    case "step-reset":
      return printError("\nthe model's answer broke off; it is made again");
    case "error":
      return printError(`error ${event.code}: ${event.errorText}`);
    case "finish": {
      const cost = event.costMicros === null ? "" : `, ${formatCost(event.costMicros)}`;
      return printError(
        `${event.finishReason}: ${event.usage.promptTokens} + ${event.usage.completionTokens} tokens${cost}`,
      );
    }
    default:
  }
}

/** Millionths of a US dollar for people. */
export function formatCost(costMicros: number): string {
  return `$${(costMicros / 1e6).toFixed(6)}`;
}

function describeQuestion(
  runId: string,
  { questionId, source, kind, message, asked, state, expiresAt }: NonNullable<
    ReturnType<typeof readQuestion>
  >,
): string {
  if (state !== "pending") return `  ${questionId} is ${state}`;
  const { schema, url } = asked;
  const wanted = kind === "form"
    ? JSON.stringify(schema).slice(0, MAX_SCHEMA_CHARS)
    : `${url ?? ""}`;
  return `  ${source} asks: ${message} ${wanted}\n  until ${expiresAt}: loophub runs answer ${runId} ${questionId} accept${
    kind === "form" ? " JSON" : ""
  } (or decline)`;
}

/** The exit code of a command whose run ended so. */
export function exitCodeOf(reason: FinishReason): number {
  if (reason === "error") return EXIT.failed;
  if (reason === "aborted") return EXIT.interrupted;
  if (reason === "token-limit") return EXIT.tokenLimit;
  return reason.startsWith("max-") ? EXIT.maxSteps : EXIT.ok;
}
