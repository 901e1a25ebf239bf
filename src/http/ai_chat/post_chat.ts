import type { WhenBusy } from "../../core/when_busy.ts";
import { HubError } from "../../core/error.ts";
import { accessOf } from "../../core/ownership.ts";
import { findNamedSession, findOwnNamedSession } from "../../run/owned.ts";
import type { RunnableAgent } from "../../run/runnable_agent.ts";
import { findKeyedSession } from "../../store/create_run.ts";
import { hasMessage } from "../../store/cut_messages.ts";
import type { Database } from "../../store/database.ts";
import { readLastTurn } from "../../store/messages.ts";
import type { StoredSession } from "../../store/sessions.ts";
import {
  type AiSdkChat,
  type AiSdkChatRequest,
  type AiSdkSubmit,
  parseAiSdkChat,
} from "../../wire/ai_sdk_request.ts";
import { answerFormatOf } from "../answer_format.ts";
import { askedAgent } from "../asked_agent.ts";
import type { Call } from "../call.ts";
import { handedOf } from "../handed.ts";
import { runIdempotency } from "../idempotency_key.ts";
import type { Reply } from "../reply.ts";
import { replayHeaders, type RunsOptions } from "../routes/runs.ts";
import { limitsOf } from "../run_limits.ts";
import { answerInChat } from "./answer_in_chat.ts";
import { beginInChat, type BeginInChatOptions } from "./begin_in_chat.ts";
import { assertChat, assertScopedAgent, assertScopedModel } from "./chat_scope.ts";
import { followedReply, isSteering, queuedReply, startedReply } from "./chat_reply.ts";

/** What the chat's routes need. */
export interface ChatOptions extends RunsOptions, BeginInChatOptions {}

/** What else a chat's post says in its query. */
export interface ChatQuery {
  agent?: string;
  whenBusy?: WhenBusy;
}

/** A post to a chat. */
export type ChatCall = Call<unknown, ChatQuery, AiSdkChatRequest>;

/** Answers a post to a chat: a message, an answer that is to be made again, or answers to what its run has asked. */
export async function postChat(call: ChatCall, options: ChatOptions): Promise<Reply> {
  const { principal, body, query } = call;
  const { follow, start: { db } } = options;
  const posted = parseAiSdkChat(body);
  assertChat(principal, posted.chatId);
  const access = accessOf(principal);
  if (posted.trigger === "answer") {
    const session = await findNamedSession(db, access, posted.chatId);
    const answered = await answerInChat(call, { chat: posted, session, options });
    return followedReply(call, answered, follow);
  }
  const known = await findOwnNamedSession(db, access, posted.chatId);
  const chat = posted.trigger === "regenerate"
    ? await chooseAgain(call, { known, chat: posted, db })
    : posted;
  const agent = agentOfChat(call, { known, options });
  const sessionId = known?.id ?? options.ids.next("ses");
  const isSubmit = chat.trigger === "submit";
  const begun = await beginInChat(
    {
      principal,
      requestId: call.requestId,
      span: call.span,
      sessionId,
      ...known === null ? { newSession: { externalId: chat.chatId } } : {},
      agent,
      message: isSubmit ? { clientId: chat.clientMessageId, parts: chat.parts } : null,
      ...isSubmit && chat.edits !== undefined ? { cutAt: chat.edits } : {},
      ...limitsOf(body),
      format: body.format === "json" ? answerFormatOf(body) : null,
      handed: handedOf(call, options),
      idempotency: await runIdempotency(call, sessionId),
    },
    { whenBusy: body.whenBusy ?? query.whenBusy ?? agent.whenBusy ?? "queue" },
    options,
  );
  switch (begun.kind) {
    case "started": {
      const { started } = begun;
      return startedReply(call, { started, headers: replayHeaders(started) }, follow);
    }
    case "queued":
      return queuedReply(call, begun.started, follow);
    case "steered": {
      const { runId, steeringId } = begun;
      const startsBehind = (event: Parameters<typeof isSteering>[0]) =>
        isSteering(event, steeringId);
      return followedReply(
        call,
        { runId, startsBehind, messageId: options.ids.next("msg") },
        follow,
      );
    }
  }
}

/** The agent that answers, with the model that the body names. Throws as `askedAgent` does, and for what a browser token is not for. */
function agentOfChat(
  { query, body, principal }: ChatCall,
  { known, options }: { known: StoredSession | null; options: RunsOptions },
): RunnableAgent {
  const named = body.agent ?? query.agent;
  if (query.agent !== undefined && named !== query.agent) {
    const [here, there] = [query.agent, body.agent].map((name) => JSON.stringify(name));
    throw new HubError(
      "invalid_request",
      `The query names the agent ${here} and the body ${there}, wanted one`,
      { param: "agent" },
    );
  }
  const { keyId, scope } = principal;
  const agent = named ?? scope?.agent ?? known?.agent ?? "default";
  assertScopedAgent(principal, agent);
  const model = body.model ?? undefined;
  if (scope === undefined || model === undefined) {
    return askedAgent({ agent, model, keyId }, options);
  }
  const own = askedAgent({ agent, keyId }, options);
  assertScopedModel(principal, { asked: model, own: own.model });
  return own;
}

type Again = Extract<AiSdkChat, { trigger: "regenerate" }>;

/**
 * What is to be made again: the answer to the chat's last message, or, where the page's last message never got here, that
 * one for the first time. Throws when it is an earlier one.
 */
async function chooseAgain(
  call: Call,
  { known, chat, db }: { known: StoredSession | null; chat: Again; db: Database },
): Promise<Again | AiSdkSubmit> {
  const { tenantId } = call.principal;
  const { last, messageId } = chat;
  const key = known === null ? null : { tenantId, sessionId: known.id };
  if (last !== undefined) {
    const isStored = key !== null && await hasMessage(db, { ...key, messageId: last });
    if (!isStored && chat.said !== undefined) return chat.said;
  }
  if (await isRepeated(call, { db, known })) return chat;
  const turn = key === null ? [] : await readLastTurn(db, key);
  if (turn.length === 0) {
    throw new HubError(
      "not_found",
      `The chat ${chat.chatId} has no message that could be answered again`,
    );
  }
  const named = messageId ?? last ?? null;
  if (named === null) return chat;
  if (turn.some(({ id, clientId }) => id === named || clientId === named)) return chat;
  throw new HubError(
    "invalid_request",
    `The message ${named} is not the last answer of the chat, and only that one can be made again`,
    { param: "messageId" },
  );
}

/** True when the request's key has started a run: the answer that it replaced is not the last one any more. */
async function isRepeated(
  call: Call,
  { db, known }: { db: Database; known: StoredSession | null },
): Promise<boolean> {
  const facts = known === null ? null : await runIdempotency(call, known.id);
  return facts !== null &&
    await findKeyedSession(db, { ...facts, tenantId: call.principal.tenantId }) !== null;
}
