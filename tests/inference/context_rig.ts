import type { ContextFact } from "../../src/core/context_events.ts";
import { HubError } from "../../src/core/error.ts";
import type { HubEvent } from "../../src/core/event.ts";
import { createFold } from "../../src/core/fold.ts";
import type { ModelRequest } from "../../src/core/model.ts";
import type { ModelWindow, Tokenizer } from "../../src/core/tokenizer.ts";
import type { UIMessage } from "../../src/core/ui_message.ts";
import type { AgentRun } from "../../src/inference/agent_run.ts";
import { SUMMARISE } from "../../src/inference/ask_summary.ts";
import { measureRequest } from "../../src/inference/measure_request.ts";
import { createTokenizers } from "../../src/providers/tokenizer/create_tokenizers.ts";
import { type Answer, asks, makeTool, says, textResult } from "./loop_rig.ts";

export const findTokenizer = createTokenizers();

/** All ways of counting tokens. */
export const TOKENIZERS = [
  "tiktoken:o200k_base",
  "tiktoken:cl100k_base",
  "tiktoken:p50k_base",
  "tiktoken:r50k_base",
  "anthropic",
  "gemini",
  "heuristic",
];

/** What a window leaves beside the limit, in these tests. */
export const OUTPUT = 100;

/** A window whose requests have at most so many tokens, and so many more at the end. */
export function windowFor(limit: number, buffer = 500, tokenizer = "heuristic"): ModelWindow {
  return {
    provider: "acme",
    model: "acme-1",
    contextTokens: limit + buffer + OUTPUT,
    outputTokens: OUTPUT,
    bufferTokens: buffer,
    tokenizer: findTokenizer(tokenizer),
  };
}

/** The window of a run, and what it was told. */
export function watched(
  window: ModelWindow,
): Pick<AgentRun, "window" | "observeContext"> & { facts: ContextFact[] } {
  const facts: ContextFact[] = [];
  return { window: () => window, observeContext: (fact) => void facts.push(fact), facts };
}

export const measure = (request: ModelRequest, tokenizer: Tokenizer = findTokenizer("heuristic")) =>
  measureRequest(request, { tokenizer, limit: 0 });

/** A tool whose results are so long. */
export const filler = (characters: number) =>
  makeTool("a.fill", ({ n }) => textResult(`${n}: ${"word ".repeat(characters / 5)}`), {
    effect: "pure",
  });

export const isSummary = ({ messages }: ModelRequest) => wordsOf(messages.at(-1)) === SUMMARISE;

export function wordsOf(message: ModelRequest["messages"][number] | undefined): string {
  const [first] = message?.role === "user" ? message.content : [];
  return first?.type === "text" ? first.text : "";
}

/** Answers by what is asked: a summary, an end, or the next call. Nothing of it depends on who asks. */
export function worker(options: { steps: number; summary?: Answer }): Answer {
  return (request, context) => {
    if (isSummary(request)) {
      return (options.summary ?? says("It was about words."))(request, context);
    }
    const step = context.step ?? 0;
    const isLast = request.toolChoice === "none" || step >= options.steps;
    return (isLast ? says("Done") : asks(["a_fill", { n: step }]))(request, context);
  };
}

/** A provider that has had enough. */
export const tooLong: Answer = async function* () {
  await Promise.resolve();
  yield [];
  throw new HubError("context_length_exceeded", "Too many tokens");
};

export const endlessly = (answer: Answer): Answer[] => new Array<Answer>(2000).fill(answer);

export const dataOf = (events: readonly HubEvent[], name: string) =>
  events.flatMap((event) =>
    event.type === "data" && event.name === name ? [event.data as Record<string, unknown>] : []
  );

/** The message that a log makes. */
export function messageOf(events: readonly HubEvent[]): UIMessage {
  const fold = createFold();
  for (const event of events) fold.apply(event);
  return fold.message();
}

export const GO: UIMessage = {
  id: "msg_0",
  role: "user",
  parts: [{ type: "text", id: "p0", text: "Go on until I say stop", state: "done" }],
};
