import { modelOfAgent } from "../../config/model_name.ts";
import { HubError, toHubError } from "../../core/error.ts";
import type { IdSource } from "../../core/id.ts";
import { isJsonObject, type JsonObject } from "../../core/json.ts";
import { parsePlainJson } from "../../core/large_json/json_in_steps.ts";
import { partsToEvents } from "../../core/replay.ts";
import { assertAgent } from "../../policy/may_call.ts";
import { modelNotFound } from "../../router/resolve.ts";
import type { FindAgent } from "../../run/create_agents.ts";
import type { FollowOptions } from "../../run/follow_run.ts";
import { awaitRun } from "../../run/run_answer.ts";
import type { RunnableAgent, StartOptions } from "../../run/runnable_agent.ts";
import type { StartedRun } from "../../run/start_run.ts";
import { stopWhenLeft, type StopWhenLeftOptions } from "../../run/stop_when_left.ts";
import { storedFacts } from "../../run/stored_facts.ts";
import { readMessage, toUiMessage } from "../../store/messages.ts";
import { type AnswerPiece, toCompletion } from "../../wire/chat_answer.ts";
import type { ChatAnswerFacts } from "../../wire/chat_dialect.ts";
import type { ChatRequestScan } from "../../wire/openai_chat/scan_request.ts";
import type { Call } from "../call.ts";
import { handedOf, type HandedOptions } from "../handed.ts";
import { idempotencyFacts, readIdempotencyKey } from "../idempotency_key.ts";
import { jsonReply, type Reply } from "../reply.ts";
import { awaitAnswer } from "../routes/await_answer.ts";
import { passThrough, within } from "../routes/completion_reply.ts";
import { runFailure } from "../routes/run_failure.ts";
import { uiSource } from "../routes/run_source.ts";
import { eventsOf, replayHeaders } from "../routes/runs.ts";
import { limitsOf } from "../run_limits.ts";
import { sseReply } from "../sse_response.ts";
import { beginRun } from "./begin_run.ts";
import { readAgentRequest } from "./read_request.ts";
import { RunPieces, type RunPiecesOptions } from "./run_pieces.ts";
import { openStreamedRun } from "./streamed_run.ts";

/** What agents as models need. */
export interface AgentModelOptions extends HandedOptions, Omit<StopWhenLeftOptions, "log"> {
  start: StartOptions;
  follow: FollowOptions;
  findAgent: FindAgent;
  ids: IdSource;
}

/** A chat request whose model is an agent. */
export interface AgentCompletion {
  agent: string;
  body: Uint8Array;
  scan: ChatRequestScan;
  asUi: boolean;
  /** As for other streams of completions. */
  keepaliveMs: number;
}

/** How a begun run is told. */
interface Telling extends RunPiecesOptions {
  facts: ChatAnswerFacts;
  /** The request has a key: the same one again is answered by the same run. */
  mayRepeat: boolean;
  headers: Readonly<Record<string, string>>;
}

/**
 * Answers a chat request by a run of an agent, in a session of its own. A client that leaves stops the run, unless the
 * request can come again under its `Idempotency-Key`.
 */
export async function completeByAgent(
  call: Call,
  completion: AgentCompletion,
  options: AgentModelOptions,
): Promise<Reply> {
  const { agent, scan } = completion;
  const chat = await readBody(completion.body);
  const { format, toolResults, ...said } = readAgentRequest(chat, { agent, ids: options.ids });
  const runnable = findRunnable(agent, call, options);
  const key = readIdempotencyKey(call);
  const run = await beginRun({
    principal: call.principal,
    requestId: call.requestId,
    span: call.span,
    agent: runnable,
    earlier: said.earlier,
    message: { clientId: null, parts: said.parts },
    format,
    ...limitsOf(chat),
    handed: handedOf({ request: call.request, body: chat, principal: call.principal }, options),
    idempotency: key === null ? null : await idempotencyFacts(
      { principal: call.principal, body: chat, readBody: () => call.readBody() },
      { key, place: "chat/completions", asked: "" },
    ),
  }, options);
  const { runId } = run;
  if (key === null) {
    const { principal: { tenantId }, signal, log } = call;
    const reason = "the client left";
    stopWhenLeft({ tenantId, runId, signal, reason }, { ...options, log });
  }
  const telling: Telling = {
    isJson: format !== null,
    toolResults,
    mayRepeat: key !== null,
    facts: {
      id: `chatcmpl-${runId}`,
      created: Math.floor(options.start.clock.now() / 1000),
      model: modelOfAgent(agent),
      includeUsage: scan.includeUsage === true,
    },
    headers: {
      "x-loophub-run": runId,
      "x-loophub-session": run.sessionId,
      ...replayHeaders(run),
    },
  };
  return scan.stream
    ? await streamRun(call, { completion, run, telling }, options)
    : await wholeRun(call, { run, telling }, options);
}

async function readBody(body: Uint8Array): Promise<JsonObject> {
  const chat = await parsePlainJson(body);
  if (isJsonObject(chat)) return chat;
  throw new HubError("invalid_request", "The request must be a JSON object");
}

function findRunnable(
  agent: string,
  { principal: { keyId } }: Pick<Call, "principal">,
  { findAgent, start: { policyOf } }: AgentModelOptions,
): RunnableAgent {
  assertAgent(policyOf?.(keyId) ?? {}, agent);
  try {
    return findAgent(agent);
  } catch (error) {
    throw toHubError(error).code === "not_found" ? modelNotFound(modelOfAgent(agent)) : error;
  }
}

async function streamRun(
  call: Call,
  { completion: { asUi, keepaliveMs }, run, telling }: {
    completion: AgentCompletion;
    run: StartedRun;
    telling: Telling;
  },
  { follow }: AgentModelOptions,
): Promise<Reply> {
  const { headers, mayRepeat: _, ...rest } = telling;
  const events = eventsOf(call, run, follow);
  const sent = { clock: call.clock, pingMs: keepaliveMs, headers };
  if (asUi) return sseReply(uiSource(events), sent);
  const opened = openStreamedRun(events, rest);
  try {
    const answer = await awaitAnswer(call, () => within(opened, call, keepaliveMs));
    return sseReply(passThrough(opened), { ...sent, open: answer === null });
  } catch (error) {
    throw withFacts(error, telling);
  }
}

async function wholeRun(
  call: Call,
  { run: started, telling }: { run: StartedRun; telling: Telling },
  { follow }: AgentModelOptions,
): Promise<Reply> {
  const { principal: { tenantId }, signal } = call;
  const { runId, messageId } = started;
  const { headers, facts, mayRepeat, ...rest } = telling;
  const run = await awaitAnswer(call, () =>
    awaitRun({ tenantId, runId, signal }, {
      follow,
      first: eventsOf(call, started, follow),
      tell() {},
    }));
  const message = await readMessage(follow.db, { tenantId, messageId });
  if (run === null || message === null) {
    throw new HubError("not_found", `The message of ${runId} is gone`);
  }
  const failure = runFailure(run, { mayRepeat });
  if (failure !== null) return failure;
  const pieces: AnswerPiece[] = [];
  const reader = new RunPieces(rest);
  for (const event of partsToEvents(toUiMessage(message), storedFacts(run, message))) {
    if (event.type !== "finish") {
      pieces.push(...reader.take(event));
      continue;
    }
    try {
      const { finishReason, usage, ...end } = reader.end(event);
      const whole = toCompletion(facts, {
        pieces: [...pieces, ...end.pieces],
        finishReason,
        usage,
      });
      return jsonReply(whole, { headers });
    } catch (error) {
      throw withFacts(error, telling);
    }
  }
  throw new HubError("lease_lost", `The run goes on elsewhere: follow it at /v1/runs/${runId}`);
}

/** The same error, which says whose run it is of. To ask again would make its tools do their work twice. */
function withFacts(error: unknown, { headers, mayRepeat }: Telling): HubError {
  const known = toHubError(error);
  const wait = mayRepeat && known.code === "lease_lost";
  known.headers = {
    ...known.headers,
    ...headers,
    ...wait ? {} : { "x-should-retry": "false" },
  };
  return known;
}
