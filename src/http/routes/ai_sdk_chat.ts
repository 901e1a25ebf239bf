import { Type } from "@sinclair/typebox";
import { HubError } from "../../core/error.ts";
import { accessOf } from "../../core/ownership.ts";
import { findNamedSession } from "../../run/owned.ts";
import { stopRun } from "../../run/stop_run.ts";
import { readStoredHistory } from "../../store/messages.ts";
import { deleteSession } from "../../store/sessions.ts";
import { toAiSdkMessage } from "../../wire/ai_sdk_message.ts";
import { AiSdkChatRequest, WhenBusyField } from "../../wire/ai_sdk_request.ts";
import { followedReply, LEVEL_HEADER } from "../ai_chat/chat_reply.ts";
import { assertChat, noChat } from "../ai_chat/chat_scope.ts";
import { type ChatOptions, postChat } from "../ai_chat/post_chat.ts";
import type { Call } from "../call.ts";
import { HANDED_HEADER } from "../handed.ts";
import { IDEMPOTENCY_HEADER } from "../idempotency_key.ts";
import { listBody, listSchema } from "../list_body.ts";
import { emptyReply, jsonReply, type Reply } from "../reply.ts";
import { defineRoute, type OtherBody, type Route, type RouteFacts } from "../route.ts";
import { MessageBody, SessionParams } from "./schemas.ts";

const CHAT = { auth: "user", tag: "ai-sdk", errors: "text" } as const satisfies Partial<RouteFacts>;

const Stopped = Type.Object({
  runId: Type.Union([Type.String(), Type.Null()], { description: "The run that went on" }),
  stopping: Type.Boolean({ description: "Whether it stops; false when nothing went on" }),
});

/** `/api/chat` for `useChat` clients: the chat's id is the session's external id. */
export function aiSdkRoutes(options: ChatOptions & { otherChat?: OtherBody }): Route[] {
  const { db } = options.start;
  const find = ({ params, principal }: Call<{ id: string }>) => {
    assertChat(principal, params.id);
    return findNamedSession(db, accessOf(principal), params.id);
  };
  const stop = async (call: Call<{ id: string }>): Promise<Reply> => {
    const { tenantId } = call.principal;
    const session = await find(call);
    if (session === null) throw noChat(call.params.id);
    const runId = session.activeRun?.runId ?? null;
    const reason = "stopped by the user";
    const stopped = runId === null ? null : await stopRun({ tenantId, runId, reason }, options);
    return jsonReply({ runId, stopping: stopped?.stopped ?? false }, { status: 202 });
  };
  const stopFacts = {
    ...CHAT,
    browserTokens: true,
    takesRoom: false,
    summary: "Stop the chat's run, if one goes on",
    description: "What has come of its answer stays. Messages that wait are answered then.",
    params: SessionParams,
    responses: {
      202: { description: "It stops, or nothing went on", schema: Stopped },
      404: { description: "There is no such chat" },
    },
    handle: stop,
  };
  return [
    defineRoute({
      ...CHAT,
      method: "POST",
      path: "/api/chat",
      browserTokens: true,
      summary: "Chat for AI SDK clients",
      query: Type.Object({
        agent: Type.Optional(
          Type.String({
            minLength: 1,
            maxLength: 64,
            description: "The agent that answers; as `agent` of the body",
          }),
        ),
        whenBusy: WhenBusyField,
      }),
      headers: { ...LEVEL_HEADER, ...IDEMPOTENCY_HEADER, ...HANDED_HEADER },
      body: AiSdkChatRequest,
      ...options.otherChat === undefined ? {} : { otherBody: options.otherChat },
      responses: {
        200: { description: "A UI message stream", contentType: "text/event-stream" },
        404: { description: "There is no such agent, model or message" },
        409: { description: "A run goes on, with whenBusy refuse; or an answer does not count" },
        503: { description: "Too many messages wait for the chat" },
      },
      handle: (call) => postChat(call, options),
    }),
    defineRoute({
      ...CHAT,
      method: "GET",
      path: "/api/chat/:id/messages",
      browserTokens: true,
      summary: "The chat's messages in the AI SDK's form, without the one in flight",
      params: SessionParams,
      responses: {
        200: {
          description: "Messages for `useChat`, oldest first",
          schema: listSchema(MessageBody, { formerly: "messages" }),
        },
      },
      async handle(call) {
        const { tenantId } = call.principal;
        const session = await find(call);
        const history = session === null
          ? []
          : await readStoredHistory(db, { tenantId, sessionId: session.id });
        return jsonReply(listBody(history.map(toAiSdkMessage), { formerly: "messages" }));
      },
    }),
    defineRoute({
      ...CHAT,
      method: "GET",
      path: "/api/chat/:id/stream",
      browserTokens: true,
      takesRoom: false,
      summary: "Resume the chat's run, if one goes on",
      params: SessionParams,
      headers: LEVEL_HEADER,
      responses: {
        200: {
          description: "A UI message stream from its start",
          contentType: "text/event-stream",
        },
        204: { description: "Nothing runs" },
      },
      async handle(call) {
        const runId = (await find(call))?.activeRun?.runId;
        return runId === undefined ? emptyReply() : followedReply(call, { runId }, options.follow);
      },
    }),
    defineRoute({
      ...stopFacts,
      method: "POST",
      path: "/api/chat/:id/stop",
    }),
    defineRoute({
      ...stopFacts,
      method: "DELETE",
      path: "/api/chat/:id/stop",
    }),
    defineRoute({
      ...CHAT,
      method: "DELETE",
      path: "/api/chat/:id",
      summary: "Delete a chat with its messages and runs",
      params: SessionParams,
      responses: {
        204: { description: "It is gone" },
        404: { description: "There is no such chat" },
        409: { description: "A run goes on: stop it first" },
      },
      async handle(call) {
        const { tenantId } = call.principal;
        const { id } = call.params;
        const session = await find(call);
        const outcome = session === null
          ? "missing"
          : await deleteSession(db, { tenantId, sessionId: session.id });
        if (outcome === "missing") throw noChat(id);
        if (outcome === "deleted") return emptyReply();
        throw new HubError("conflict", `The chat ${id} has a run that goes on: stop it first`, {
          clientCode: "run_active",
        });
      },
    }),
  ];
}
