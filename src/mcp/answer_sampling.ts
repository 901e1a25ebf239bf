import type { Client, CreateMessageResult } from "@modelcontextprotocol/client";
import type { LoadedMcpServer } from "../config/complete_mcp_servers.ts";
import type { Json, JsonObject } from "../core/json.ts";
import type { Sampler, SamplingWish } from "../core/sampling.ts";
import type { ToolQuestion } from "../core/tool.ts";
import { describeFailure } from "./failure.ts";
import type { Asker, ServerAnswers } from "./answer_questions.ts";
import { visibleText } from "../core/visible_text.ts";
import { readSampling } from "./read_sampling.ts";

const DEFAULT_TOKENS = 4096;
const DEFAULT_CALLS = 10;
const MAX_SHOWN_CHARS = 1000;
const STOP_REASONS: Readonly<Record<string, string>> = { stop: "endTurn", length: "maxTokens" };

/** Answers of the protocol: what the user refuses, and parameters that do not fit. */
const REFUSED = -1;
const INVALID = -32602;
const FAILED = -32603;

/**
 * Lets a server ask a model in the middle of a call, on the account of whoever made that: at the hub, where it is
 * configured so, else at the client that called. Where the protocol does not say whose call it is for, and there are
 * several, nobody is. Gives what asks for a call that is known.
 */
export function answerSampling(
  client: Client,
  { askers, server, sample }: {
    askers: ReadonlySet<Asker>;
    server: LoadedMcpServer;
    sample: Sampler | undefined;
  },
): ServerAnswers["sample"] {
  const counts = new WeakMap<Asker, number>();
  const answer: ServerAnswers["sample"] = async (asker, params) => {
    if (server.sampling === false) throw refused("The server may not ask models");
    const count = (counts.get(asker) ?? 0) + 1;
    counts.set(asker, count);
    const most = (server.sampling || {}).maxCalls ?? DEFAULT_CALLS;
    if (count > most) throw refused(`One call may ask a model ${most} times`);
    return server.sampling === undefined
      ? await pass(asker, params)
      : await think(asker, { params, server, sample });
  };
  if (server.sampling === false) return answer;
  client.setRequestHandler("sampling/createMessage", async ({ params }) => {
    const [asker, ...others] = askers;
    if (asker === undefined) throw refused("No call is under way that it would be for");
    if (others.length > 0) {
      throw refused("Several calls are under way, and nobody knows whose this would be");
    }
    const said = await answer(asker, params as unknown as JsonObject);
    return said as unknown as CreateMessageResult;
  });
  return answer;
}

/** Hands it on to the client that called. */
async function pass(asker: Asker, params: JsonObject): Promise<Json> {
  const { sample } = asker;
  if (sample === undefined) throw refused("Nobody who could ask a model takes part in this call");
  try {
    return await asker.pause(() => sample(params));
  } catch (error) {
    throw new SamplingError(REFUSED, describeFailure(error));
  }
}

async function think(
  asker: Asker,
  { params, server, sample }: {
    params: JsonObject;
    server: LoadedMcpServer;
    sample: Sampler | undefined;
  },
): Promise<Json> {
  const { model, maxTokens = DEFAULT_TOKENS, approval = "auto" } = server.sampling || {};
  const { caller, signal } = asker;
  if (caller === undefined || sample === undefined) throw refused("There is no model here");
  let read: ReturnType<typeof readSampling>;
  try {
    read = readSampling(params);
  } catch (error) {
    throw new SamplingError(INVALID, describeFailure(error));
  }
  const asked = {
    ...read,
    model: model ?? sample.defaultModel(),
    maxTokens: Math.min(read.maxTokens, maxTokens),
  };
  if (caller.budget?.fits(asked.maxTokens) === false) {
    throw refused("The budget of the run has no room for it");
  }
  if (approval === "ask") {
    const { action } = await asker.ask(approvalOf(server.slug, asked), signal);
    if (action !== "accept") throw refused("Nobody has approved it");
  }
  try {
    const said = await asker.pause(() => sample.ask(asked, { ...caller, signal }));
    return {
      role: "assistant",
      content: { type: "text", text: said.text },
      model: said.model,
      stopReason: STOP_REASONS[said.finishReason] ?? said.finishReason,
    };
  } catch (error) {
    throw new SamplingError(FAILED, describeFailure(error));
  }
}

/** What a person reads who lets a model be asked: which, how much it may say, and what it is asked last. */
function approvalOf(source: string, wish: SamplingWish): ToolQuestion {
  const { model, maxTokens, messages, systemPrompt } = wish;
  const last = messages.at(-1);
  const shown = last?.role === "user"
    ? last.content.map((block) => block.type === "text" ? block.text : "(an image)").join("\n")
    : last?.text ?? "";
  const rules = systemPrompt === ""
    ? ""
    : ` It is told before: ${visibleText(systemPrompt.slice(0, MAX_SHOWN_CHARS))}`;
  const place = messages.length === 1 ? "" : ` (the last of ${messages.length} messages)`;
  const message = `May the model ${model} be asked this${place}, for at most ${maxTokens} tokens? ${
    visibleText(shown.slice(0, MAX_SHOWN_CHARS))
  }${rules}`;
  return { source, kind: "sampling", message, model, maxTokens };
}

function refused(why: string): SamplingError {
  return new SamplingError(REFUSED, `No model was asked: ${why}`);
}

/** What the server reads of it, with the protocol's code. */
class SamplingError extends Error {
  override readonly name = "SamplingError";
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}
