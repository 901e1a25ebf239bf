import { Type } from "@sinclair/typebox";
import { HubError } from "../../core/error.ts";
import type { IdSource } from "../../core/id.ts";
import { followRun } from "../../run/follow_run.ts";
import { startRun } from "../../run/start_run.ts";
import { findKeyedSession } from "../../store/create_run.ts";
import type { Database } from "../../store/database.ts";
import { readHistory, readLastTurn } from "../../store/messages.ts";
import {
  createSession,
  readSessionByExternalId,
  type StoredSession,
} from "../../store/sessions.ts";
import { toAiSdkMessage } from "../../wire/ai_sdk_message.ts";
import { type AiSdkChat, AiSdkChatRequest, parseAiSdkChat } from "../../wire/ai_sdk_request.ts";
import { parseStreamLevel } from "../../wire/ai_sdk_chunk.ts";
import { AI_SDK_HEADERS } from "../../wire/ai_sdk_stream.ts";
import { answerFormatOf } from "../answer_format.ts";
import type { Call } from "../call.ts";
import { HANDED_HEADER, handedOf } from "../handed.ts";
import { IDEMPOTENCY_HEADER, runIdempotency } from "../idempotency_key.ts";
import { emptyReply, jsonReply } from "../reply.ts";
import { defineRoute, type Route } from "../route.ts";
import { limitsOf } from "../run_limits.ts";
import { sseReply } from "../sse_response.ts";
import { aiSdkSource, type RunEvents } from "./run_source.ts";
import { eventsOf, replayHeaders, type RunsOptions } from "./runs.ts";
import { MessageBody, SessionParams } from "./schemas.ts";

/** `/api/chat` for `useChat` clients: the chat's id is the session's external id. */
export function aiSdkRoutes(options: RunsOptions & { ids: IdSource }): Route[] {
  const { db } = options.start;
  const reply = (call: Call, events: RunEvents, headers: Readonly<Record<string, string>> = {}) =>
    sseReply(
      aiSdkSource(events, { level: parseStreamLevel(call.request.header("hub-stream-level")) }),
      {
        clock: call.clock,
        headers: { ...headersFor(), ...headers },
      },
    );
  return [
    defineRoute({
      method: "POST",
      path: "/api/chat",
      auth: "user",
      tag: "ai-sdk",
      errors: "text",
      summary: "Chat for AI SDK clients",
      query: Type.Object({ agent: Type.Optional(Type.String({ maxLength: 64 })) }),
      headers: { ...LEVEL, ...IDEMPOTENCY_HEADER, ...HANDED_HEADER },
      body: AiSdkChatRequest,
      responses: { 200: { description: "A UI message stream", contentType: "text/event-stream" } },
      async handle(call) {
        const { principal } = call;
        const { tenantId } = principal;
        const chat = parseAiSdkChat(call.body);
        const handed = handedOf(call, options);
        const known = await readSessionByExternalId(db, { tenantId, externalId: chat.chatId });
        if (chat.trigger === "regenerate" && !await isRepeated(call, { db, known })) {
          await assertLastTurn(db, { tenantId, known, chat });
        }
        const session = known ?? await createSession(db, {
          tenantId,
          sessionId: options.ids.next("ses"),
          externalId: chat.chatId,
          agent: options.findAgent(call.query.agent ?? "default").settings.name,
          keyId: principal.keyId,
        });
        const started = await startRun({
          principal,
          requestId: call.requestId,
          span: call.span,
          sessionId: session.id,
          agent: options.findAgent(call.query.agent ?? session.agent),
          message: chat.trigger === "submit"
            ? { clientId: chat.clientMessageId, parts: chat.parts }
            : null,
          ...limitsOf(call.body),
          format: call.body.format === "json" ? answerFormatOf(call.body) : null,
          handed,
          idempotency: await runIdempotency(call, session.id),
        }, options.start);
        return reply(call, eventsOf(call, started, options.follow), replayHeaders(started));
      },
    }),
    defineRoute({
      method: "GET",
      path: "/api/chat/:id/messages",
      auth: "user",
      tag: "ai-sdk",
      errors: "text",
      summary: "The chat's messages in the AI SDK's form, without the one in flight",
      params: SessionParams,
      responses: {
        200: {
          description: "Messages for `useChat`, oldest first",
          schema: Type.Object({ messages: Type.Array(MessageBody) }),
        },
      },
      async handle({ params, principal: { tenantId } }) {
        const session = await readSessionByExternalId(db, { tenantId, externalId: params.id });
        const history = session === null
          ? []
          : await readHistory(db, { tenantId, sessionId: session.id });
        return jsonReply({ messages: history.map(toAiSdkMessage) });
      },
    }),
    defineRoute({
      method: "GET",
      path: "/api/chat/:id/stream",
      auth: "user",
      tag: "ai-sdk",
      errors: "text",
      takesRoom: false,
      summary: "Resume the chat's run, if one goes on",
      params: SessionParams,
      headers: LEVEL,
      responses: {
        200: {
          description: "A UI message stream from its start",
          contentType: "text/event-stream",
        },
        204: { description: "Nothing runs" },
      },
      async handle(call) {
        const { tenantId } = call.principal;
        const session = await readSessionByExternalId(db, { tenantId, externalId: call.params.id });
        const runId = session?.activeRun?.runId;
        if (runId === undefined) return emptyReply();
        return reply(
          call,
          followRun({ tenantId, runId, after: 0, signal: call.signal }, options.follow),
        );
      },
    }),
  ];
}

const LEVEL = {
  "hub-stream-level": "What the client understands: 5 (default), 6 or 7 (docs/events.md)",
};

/** True when the request's key has started a run: the answer that it replaced is not the last one any more. */
async function isRepeated(
  call: Call,
  { db, known }: { db: Database; known: StoredSession | null },
): Promise<boolean> {
  const facts = known === null ? null : await runIdempotency(call, known.id);
  return facts !== null &&
    await findKeyedSession(db, { ...facts, tenantId: call.principal.tenantId }) !== null;
}

/** Refuses to make anything again but the answer to the chat's last user message. */
async function assertLastTurn(
  db: Database,
  { tenantId, known, chat }: {
    tenantId: string;
    known: StoredSession | null;
    chat: Extract<AiSdkChat, { trigger: "regenerate" }>;
  },
): Promise<void> {
  const turn = known === null ? [] : await readLastTurn(db, { tenantId, sessionId: known.id });
  if (turn.length === 0) {
    throw new HubError(
      "not_found",
      `The chat ${chat.chatId} has no message that could be answered again`,
    );
  }
  const { messageId } = chat;
  if (messageId === null) return;
  if (turn.some(({ id, clientId }) => id === messageId || clientId === messageId)) return;
  throw new HubError(
    "invalid_request",
    `The message ${messageId} is not the last answer of the chat, and only that one can be made again`,
    { param: "messageId" },
  );
}

function headersFor(): Record<string, string> {
  const { "content-type": _, ...rest } = AI_SDK_HEADERS;
  return rest;
}
