import { Type } from "@sinclair/typebox";
import type { IdSource } from "../../core/id.ts";
import { followRun } from "../../run/follow_run.ts";
import { startRun } from "../../run/start_run.ts";
import { readHistory } from "../../store/messages.ts";
import { createSession, readSessionByExternalId } from "../../store/sessions.ts";
import { toAiSdkMessage } from "../../wire/ai_sdk_message.ts";
import { AiSdkChatRequest, parseAiSdkChat } from "../../wire/ai_sdk_request.ts";
import { parseStreamLevel } from "../../wire/ai_sdk_chunk.ts";
import { AI_SDK_HEADERS } from "../../wire/ai_sdk_stream.ts";
import type { Call } from "../call.ts";
import { emptyReply, jsonReply } from "../reply.ts";
import { defineRoute, type Route } from "../route.ts";
import { sseReply } from "../sse_response.ts";
import { aiSdkSource, type RunEvents } from "./run_source.ts";
import { eventsOf, type RunsOptions } from "./runs.ts";
import { SessionParams } from "./schemas.ts";

/** `/api/chat` for `useChat` clients: the chat's id is the session's external id. */
export function aiSdkRoutes(options: RunsOptions & { ids: IdSource }): Route[] {
  const { db } = options.start;
  const reply = (call: Call, events: RunEvents) =>
    sseReply(
      aiSdkSource(events, { level: parseStreamLevel(call.request.header("hub-stream-level")) }),
      {
        clock: call.clock,
        headers: headersFor(),
      },
    );
  return [
    defineRoute({
      method: "POST",
      path: "/api/chat",
      auth: "user",
      tag: "ai-sdk",
      summary: "Chat for AI SDK clients",
      query: Type.Object({ agent: Type.Optional(Type.String({ maxLength: 64 })) }),
      body: AiSdkChatRequest,
      responses: { 200: { description: "A UI message stream", contentType: "text/event-stream" } },
      async handle(call) {
        const { principal } = call;
        const { tenantId } = principal;
        const chat = parseAiSdkChat(call.body);
        const session = await readSessionByExternalId(db, { tenantId, externalId: chat.chatId }) ??
          await createSession(db, {
            tenantId,
            sessionId: options.ids.next("ses"),
            externalId: chat.chatId,
            agent: options.findAgent(call.query.agent ?? "default").settings.name,
            keyId: principal.keyId,
          });
        const started = await startRun({
          principal,
          requestId: call.requestId,
          sessionId: session.id,
          agent: options.findAgent(call.query.agent ?? session.agent),
          message: chat.trigger === "submit"
            ? { clientId: chat.clientMessageId, parts: chat.parts }
            : null,
        }, options.start);
        return reply(call, eventsOf(call, started, options.follow));
      },
    }),
    defineRoute({
      method: "GET",
      path: "/api/chat/:id/messages",
      auth: "user",
      tag: "ai-sdk",
      summary: "The chat's messages in the AI SDK's form, without the one in flight",
      params: SessionParams,
      responses: { 200: { description: "Messages for `useChat`, oldest first" } },
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
      summary: "Resume the chat's run, if one goes on",
      params: SessionParams,
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

function headersFor(): Record<string, string> {
  const { "content-type": _, ...rest } = AI_SDK_HEADERS;
  return rest;
}
