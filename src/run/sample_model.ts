import type { IdSource } from "../core/id.ts";
import type { ModelMessage } from "../core/model.ts";
import type { BudgetLeft } from "../core/run_budget.ts";
import type { Sampler, SamplingWish } from "../core/sampling.ts";
import { NO_USAGE } from "../core/usage.ts";
import { createCallModel } from "../router/call_model.ts";
import { tagsOf } from "../router/key_tags.ts";
import type { OpenAnswer } from "../router/open_answer.ts";
import type { ResolveModel } from "../router/resolve.ts";

/** Longest answer, in characters. */
const MAX_ANSWER_CHARS = 1024 * 1024;

/** Makes what asks models for tools, on the way and the account that the caller's own requests have. */
export function createSampler(
  { resolve, openAnswer, ids, defaultModel, epochOf }: {
    resolve: ResolveModel;
    openAnswer: OpenAnswer;
    ids: IdSource;
    defaultModel(): string;
    /** Epoch under which this replica drives a run; null when it does not. */
    epochOf(runId: string): number | null;
  },
): Sampler {
  const ask: Sampler["ask"] = async (
    wish,
    { principal, sessionId, runId, agent, signal, budget },
  ) => {
    const publicModel = wish.model;
    const route = resolve(publicModel);
    const { tenantId, keyId } = principal;
    const whose = { requestId: ids.next("req"), tenantId, keyId, publicModel };
    const callModel = createCallModel(openAnswer, {
      targets: () => route,
      epoch: runId === "" ? null : epochOf(runId),
      facts: runId === ""
        ? { ...whose, kind: "proxy" }
        : { ...whose, kind: "run", agent, sessionId, runId },
      tags: tagsOf(principal),
      toWire: (name) => name,
    });
    const said = { text: "", model: publicModel, finishReason: "unknown" };
    const { temperature, maxTokens: maxOutputTokens, extra } = wish;
    const request = {
      messages: toMessages(wish),
      tools: [],
      maxOutputTokens,
      extra,
      ...temperature === undefined ? {} : { temperature },
    };
    let used: Parameters<BudgetLeft["book"]>[0] | null = null;
    try {
      for await (const events of callModel(request, { signal, stepAttempt: 0 })) {
        for (const event of events) {
          if (event.type === "response-start") {
            said.model = event.model;
            // What it costs is unknown until it has said what it used.
            used = { model: publicModel, usage: NO_USAGE, costMicros: null };
          } else if (event.type === "usage") {
            const { usage, costMicros = null } = event;
            used = { model: publicModel, usage, costMicros };
          } else if (event.type === "text-delta") said.text += event.delta;
          else if (event.type === "finish") said.finishReason = event.finishReason;
        }
        if (said.text.length > MAX_ANSWER_CHARS) break;
      }
    } finally {
      if (used !== null) budget?.book(used);
    }
    signal.throwIfAborted();
    return { ...said, text: said.text.slice(0, MAX_ANSWER_CHARS) };
  };
  return { defaultModel, ask };
}

function toMessages({ systemPrompt, messages }: SamplingWish): ModelMessage[] {
  return [
    ...systemPrompt === "" ? [] : [{ role: "system" as const, text: systemPrompt }],
    ...messages.map((message): ModelMessage =>
      message.role === "user"
        ? message
        : { role: "assistant", content: [{ type: "text", text: message.text }] }
    ),
  ];
}
