import type { Client, CreateMessageResult } from "@modelcontextprotocol/client";
import type { LoadedMcpServer } from "../config/complete_mcp_servers.ts";
import type { Json, JsonObject } from "../core/json.ts";
import type { SampleModel } from "../core/sampling.ts";
import { describeFailure } from "./failure.ts";
import type { Asker } from "./answer_questions.ts";
import { cleanText } from "./clean_text.ts";
import { readSampling } from "./read_sampling.ts";

const DEFAULT_TOKENS = 4096;
const DEFAULT_CALLS = 10;
const MAX_SHOWN_CHARS = 1000;
const NOTHING_TO_FILL_IN = { type: "object", properties: {} };
const STOP_REASONS: Readonly<Record<string, string>> = { stop: "endTurn", length: "maxTokens" };

/** Answers of the protocol: what the user refuses, and parameters that do not fit. */
const REFUSED = -1;
const INVALID = -32602;
const FAILED = -32603;

/**
 * Lets a server ask a model in the middle of a call, on the account of whoever made that: at the hub, where it is
 * configured so, else at the client that called. With several calls under way nobody knows whose it would be.
 */
export function answerSampling(
  client: Client,
  { askers, server, sample }: {
    askers: ReadonlySet<Asker>;
    server: LoadedMcpServer;
    sample: SampleModel | undefined;
  },
): void {
  if (server.sampling === false) return;
  const counts = new WeakMap<Asker, number>();
  client.setRequestHandler("sampling/createMessage", async ({ params }) => {
    const [asker, ...others] = askers;
    if (asker === undefined) throw refused("No call is under way that it would be for");
    if (others.length > 0) {
      throw refused("Several calls are under way, and nobody knows whose this would be");
    }
    const count = (counts.get(asker) ?? 0) + 1;
    counts.set(asker, count);
    const most = (server.sampling || {}).maxCalls ?? DEFAULT_CALLS;
    if (count > most) throw refused(`One call may ask a model ${most} times`);
    const asked = params as unknown as JsonObject;
    const answer = server.sampling === undefined
      ? await pass(asker, asked)
      : await think(asker, { params: asked, server, sample });
    return answer as unknown as CreateMessageResult;
  });
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
    sample: SampleModel | undefined;
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
  if (approval === "ask") {
    const last = read.messages.at(-1);
    const text = JSON.stringify(last?.role === "user" ? last.content : last?.text ?? "");
    const { action } = await asker.ask({
      source: server.slug,
      kind: "form",
      message: `May a model be asked this? ${cleanText(text, MAX_SHOWN_CHARS)}`,
      schema: NOTHING_TO_FILL_IN,
    });
    if (action !== "accept") throw refused("Nobody has approved it");
  }
  const wish = { ...read, model: model ?? null, maxTokens: Math.min(read.maxTokens, maxTokens) };
  try {
    const said = await asker.pause(() => sample(wish, { ...caller, signal }));
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
