import { answerEvent, problemEvent, readAnswer, readProblem } from "../core/answer_format.ts";
import { HubError } from "../core/error.ts";
import { readSteering } from "../core/steering.ts";
import type { UIMessage } from "../core/ui_message.ts";
import type { AgentRun } from "./agent_run.ts";
import type { RunLedger } from "./run_ledger.ts";
import type { StepReason } from "./step_reason.ts";
import { type Ending, failed } from "./terminal.ts";

/** Times the model is told what is wrong with its answer. */
const MAX_REPAIRS = 2;

type Parts = Pick<UIMessage, "parts">;

/**
 * Writes down whether an answer is what the run is to give, beside the end of its step. True when the model is to make
 * it again.
 */
export function holdAnswer(
  { answer }: AgentRun,
  ledger: RunLedger,
  { step, finishReason }: { step: number; finishReason: StepReason },
): boolean {
  if (answer === undefined || finishReason === "content-filter") return false;
  const message = ledger.message();
  const read = answer.read(lastText(message));
  if (read.ok) {
    ledger.add([answerEvent(step, read.value)]);
    return false;
  }
  if (finishReason === "length" || repairsOf(message) >= MAX_REPAIRS) return false;
  const words = `Your answer cannot be used. ${read.problem}. ${answer.instruction}`;
  ledger.add([problemEvent(step, words)]);
  return true;
}

/** How a run ends whose answer is to be JSON: never well with anything else. */
export function heldEnding({ answer }: AgentRun, ledger: RunLedger, ending: Ending): Ending {
  if (answer === undefined || ending.kind !== "finish" || ending.finishReason === "waiting") {
    return ending;
  }
  const message = ledger.message();
  if (isBehindStep(message, (part) => readAnswer(part) !== undefined)) return ending;
  const { finishReason } = ending;
  if (finishReason === "content-filter") {
    return refusal("answer_refused", "The model refused to answer, or a content filter stopped it");
  }
  if (finishReason === "length") {
    return refusal("answer_cut", "The answer reached its length limit before it was whole");
  }
  const read = answer.read(lastText(message));
  const why = read.ok ? "The run ended before it gave one" : read.problem;
  const repairs = repairsOf(message);
  const spent = ending.isSpent === true ? `, and the run is over (${finishReason})` : "";
  return refusal(
    "answer_invalid",
    `The agent's answer does not fit after ${repairs} repairs${spent}. ${why}`,
  );
}

/** True when the last answer was refused, and the model is still to be told. */
export function mustRepair(message: Parts): boolean {
  return isBehindStep(message, (part) => readProblem(part) !== null);
}

/** True when the model makes its answer again, and nothing else was said meanwhile. */
export function isRepairing(message: Parts): boolean {
  return repairsOf(message) > 0;
}

/** How often the answer to what was said last was refused. */
function repairsOf({ parts }: Parts): number {
  const said = parts.findLastIndex((part) => readSteering(part)?.state === "applied");
  return parts.slice(said + 1).filter((part) => readProblem(part) !== null).length;
}

function isBehindStep({ parts }: Parts, fits: (part: UIMessage["parts"][number]) => boolean) {
  return parts.slice(parts.findLastIndex(({ type }) => type === "step-start") + 1).some(fits);
}

function lastText({ parts }: Parts): string {
  return parts.slice(parts.findLastIndex(({ type }) => type === "step-start") + 1)
    .flatMap((part) => part.type === "text" ? [part.text] : []).join("");
}

function refusal(clientCode: string, text: string): Ending {
  return failed(new HubError("upstream_malformed", text, { clientCode }));
}
