import type { IdSource } from "../core/id.ts";
import type { ModelMessage } from "../core/model.ts";
import type { ModelUse } from "../core/model_use.ts";
import type { Sampler, SamplingWish } from "../core/sampling.ts";
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
    const used: ModelUse[] = [];
    const context = { signal, stepAttempt: 0, onUsed: (use: ModelUse) => void used.push(use) };
    try {
      for await (const events of callModel(request, context)) {
        for (const event of events) {
          if (event.type === "response-start") said.model = event.model;
          else if (event.type === "text-delta") said.text += event.delta;
          else if (event.type === "finish") said.finishReason = event.finishReason;
        }
        if (said.text.length > MAX_ANSWER_CHARS) break;
      }
    } finally {
      for (const { estimated, ...use } of used) {
        budget?.book({ model: publicModel, ...use, ...estimated ? { estimated } : {} });
      }
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
