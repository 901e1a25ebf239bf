import type { JsonObject } from "../core/json.ts";
import type { RunQuestion } from "../core/run_question.ts";
import type { ToolAnswer, ToolQuestion } from "../core/tool.ts";
import { toToolContent, toToolOutput } from "../operations/tool_output.ts";
import { wellFormedJson, wellFormedText } from "../core/well_formed.ts";
import type { AgentRun, GivenAnswer, Questions, ToolOutcome } from "./agent_run.ts";

const MAX_SHOWN_CHARS = 200;

/** The question as the run's log has it. */
export function toRunQuestion(
  question: ToolQuestion,
  { toolCallId, run, questions }: {
    toolCallId: string;
    run: Pick<AgentRun, "ids" | "clock">;
    questions: Pick<Questions, "timeoutMs">;
  },
): RunQuestion {
  const { source, kind, message } = question;
  return {
    questionId: run.ids.next("qst"),
    toolCallId,
    source,
    kind,
    message: wellFormedText(message),
    asked: askedOf(question),
    expiresAt: new Date(run.clock.now() + questions.timeoutMs).toISOString(),
  };
}

function askedOf(question: ToolQuestion): JsonObject {
  switch (question.kind) {
    case "form":
      return { schema: wellFormedJson(question.schema) };
    case "url":
      return { url: question.url };
    case "sampling":
      return { model: question.model, maxTokens: question.maxTokens };
  }
}

/** What whoever asked is told. */
export function toAnswer(given: GivenAnswer): ToolAnswer {
  switch (given.state) {
    case "answered": {
      const { content } = given;
      return { action: "accept", ...content === undefined ? {} : { content } };
    }
    case "declined":
      return { action: "decline" };
    case "expired":
    case "cancelled":
      return { action: "cancel" };
  }
}

/** The outcome of a call, with what nobody has answered in time: the model reads it behind the tool's own words. */
export function withUnanswered(outcome: ToolOutcome, unanswered: readonly string[]): ToolOutcome {
  if (unanswered.length === 0) return outcome;
  const shown = unanswered.map((message) => JSON.stringify(message.slice(0, MAX_SHOWN_CHARS)));
  const note = `(nobody answered in time what the tool has asked: ${shown.join(", ")})`;
  if (!outcome.ok) return { ...outcome, errorText: `${outcome.errorText}\n\n${note}` };
  const content = toToolContent(outcome.output);
  return {
    ...outcome,
    output: toToolOutput({ content: [...content, { type: "text", text: note }] }),
  };
}
