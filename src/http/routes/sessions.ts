import { Type } from "@sinclair/typebox";
import { HubError } from "../../core/error.ts";
import type { IdSource } from "../../core/id.ts";
import type { JsonObject } from "../../core/json.ts";
import { accessOf, belongingOf } from "../../core/ownership.ts";
import type { KeyPolicy } from "../../policy/key_policy.ts";
import type { FindAgent } from "../../run/create_agents.ts";
import { findOwnNamedSession, findSession } from "../../run/owned.ts";
import type { Database } from "../../store/database.ts";
import { readFile } from "../../store/files.ts";
import { listMessages, type StoredMessage } from "../../store/messages.ts";
import { createSession, deleteSession, listSessions, updateSession } from "../../store/sessions.ts";
import { askedAgent } from "../asked_agent.ts";
import { listBody, listSchema } from "../list_body.ts";
import { bytesReply, emptyReply, jsonReply } from "../reply.ts";
import { defineRoute, type Route } from "../route.ts";
import {
  MessageBody,
  NewSessionBody,
  PageQuery,
  SessionBody,
  SessionChange,
  SessionParams,
  Time,
} from "./schemas.ts";

/** What the session routes need. */
export interface SessionsOptions {
  db: Database;
  ids: IdSource;
  findAgent: FindAgent;
  /** What a key may do; without it any key has any agent. */
  policyOf?(keyId: string): KeyPolicy;
}

const tag = "sessions";
const DEFAULT_LIMIT = 50;
const MEDIA_TYPE = /^[a-z0-9!#$&^_.+-]{1,64}\/[a-z0-9!#$&^_.+-]{1,64}$/;
/** Whoever gave the file says its type: nothing of it may run where the hub is. */
const FILE_HEADERS = {
  "content-disposition": "attachment",
  "content-security-policy": "default-src 'none'; sandbox",
  "x-content-type-options": "nosniff",
  "cache-control": "private, max-age=31536000, immutable",
};

/** Create, list, read, change and delete sessions, and read their messages. */
export function sessionRoutes(options: SessionsOptions): Route[] {
  const { db, policyOf, findAgent } = options;
  const asked = { findAgent, start: policyOf === undefined ? {} : { policyOf } };
  return [
    defineRoute({
      method: "POST",
      path: "/v1/sessions",
      auth: "user",
      tag,
      summary: "Create a session",
      body: NewSessionBody,
      responses: { 201: { description: "The session", schema: SessionBody } },
      async handle({ body, principal }) {
        const { tenantId, keyId } = principal;
        // A message may name another agent, so the default agent is checked when a run uses it.
        const agent = body.agent === undefined
          ? findAgent("default")
          : askedAgent({ agent: body.agent, keyId }, asked);
        const { externalId } = body;
        const access = accessOf(principal);
        const known = externalId === undefined
          ? null
          : await findOwnNamedSession(db, access, externalId);
        const session = known ?? await createSession(db, {
          tenantId,
          sessionId: options.ids.next("ses"),
          agent: agent.settings.name,
          ...{ ...belongingOf(access), keyId },
          ...(body.title === undefined ? {} : { title: body.title }),
          ...(externalId === undefined ? {} : { externalId }),
          ...(body.metadata === undefined ? {} : { metadata: body.metadata as JsonObject }),
        });
        return jsonReply(session, {
          status: 201,
          headers: { location: `/v1/sessions/${session.id}` },
        });
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/sessions",
      auth: "user",
      tag,
      summary: "List sessions, newest first",
      query: Type.Object({
        ...PageQuery,
        createdAfter: Type.Optional(Time),
        createdBefore: Type.Optional(Time),
        status: Type.Optional(Type.Union([Type.Literal("idle"), Type.Literal("running")])),
        agent: Type.Optional(Type.String({ maxLength: 64 })),
      }, { additionalProperties: false }),
      responses: {
        200: {
          description: "A page",
          schema: listSchema(SessionBody, { formerly: "sessions" }),
        },
      },
      async handle({ query, principal }) {
        const { sessions, nextCursor } = await listSessions(db, {
          ...query,
          ...accessOf(principal),
          limit: query.limit ?? DEFAULT_LIMIT,
        });
        return jsonReply(listBody(sessions, { formerly: "sessions", nextCursor }));
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/sessions/:id",
      auth: "user",
      tag,
      summary: "One session",
      params: SessionParams,
      responses: { 200: { description: "The session", schema: SessionBody } },
      handle: async ({ params, principal }) =>
        jsonReply(await findSession(db, accessOf(principal), params.id)),
    }),
    defineRoute({
      method: "PATCH",
      path: "/v1/sessions/:id",
      auth: "user",
      tag,
      summary: "Change title, agent or metadata",
      params: SessionParams,
      body: SessionChange,
      responses: { 200: { description: "The session", schema: SessionBody } },
      async handle({ params, body, principal }) {
        const access = accessOf(principal);
        const { tenantId } = access;
        const { id: sessionId } = await findSession(db, access, params.id);
        const { agent } = body;
        if (agent !== undefined) askedAgent({ agent, keyId: principal.keyId }, asked);
        const { metadata, ...rest } = body;
        await updateSession(db, {
          tenantId,
          sessionId,
          ...rest,
          ...(metadata === undefined ? {} : { metadata: metadata as JsonObject }),
        });
        return jsonReply(await findSession(db, access, sessionId));
      },
    }),
    defineRoute({
      method: "DELETE",
      path: "/v1/sessions/:id",
      auth: "user",
      tag,
      summary: "Delete a session with its messages and runs",
      params: SessionParams,
      responses: {
        204: { description: "It is gone" },
        409: { description: "A run goes on" },
      },
      async handle({ params, principal }) {
        const { tenantId } = principal;
        const { id: sessionId } = await findSession(db, accessOf(principal), params.id);
        if (await deleteSession(db, { tenantId, sessionId }) === "busy") {
          throw new HubError("conflict", "The session has a run that goes on: stop it first", {
            clientCode: "run_active",
          });
        }
        return emptyReply();
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/sessions/:id/files/:sha256",
      auth: "user",
      tag,
      summary: "Read a file that a tool of a session gave",
      params: Type.Object({
        ...SessionParams.properties,
        sha256: Type.String({ pattern: "^[0-9a-f]{64}$" }),
      }),
      responses: {
        200: { description: "The bytes, as a download", contentType: "application/octet-stream" },
        404: { description: "There is no such session or file" },
      },
      async handle({ params: { id, sha256 }, principal }) {
        const { tenantId } = principal;
        const { id: sessionId } = await findSession(db, accessOf(principal), id);
        const file = await readFile(db, { tenantId, sessionId, sha256 });
        if (file === null) throw new HubError("not_found", `The session has no file ${sha256}`);
        const { mediaType, content } = file;
        return bytesReply(content, {
          contentType: MEDIA_TYPE.test(mediaType) ? mediaType : "application/octet-stream",
          headers: FILE_HEADERS,
        });
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/sessions/:id/messages",
      auth: "user",
      tag,
      summary: "A session's messages in order, without the one in flight",
      params: SessionParams,
      query: Type.Object({
        ...PageQuery,
        superseded: Type.Optional(
          Type.Boolean({
            description:
              "Also messages that others took the place of: answers made again, edited texts and what followed them",
          }),
        ),
      }, { additionalProperties: false }),
      responses: {
        200: {
          description: "A page, and the run that goes on",
          schema: Type.Object({
            ...listSchema(MessageBody, { formerly: "messages" }).properties,
            activeRun: Type.Unknown(),
          }),
        },
      },
      async handle({ params, query, principal }) {
        const { tenantId } = principal;
        const session = await findSession(db, accessOf(principal), params.id);
        const page = await listMessages(db, {
          tenantId,
          sessionId: session.id,
          limit: query.limit ?? DEFAULT_LIMIT,
          inFlight: false,
          superseded: query.superseded ?? false,
          ...(query.after === undefined ? {} : { after: query.after }),
        });
        const { nextCursor } = page;
        return jsonReply({
          ...listBody(page.messages.map(toShown), { formerly: "messages", nextCursor }),
          activeRun: session.activeRun,
        });
      },
    }),
  ];
}

/** A message for clients: what providers want back with reasoning stays inside. */
export function toShown(message: StoredMessage): StoredMessage {
  return {
    ...message,
    parts: message.parts.map((part) => {
      if (part.type !== "reasoning") return part;
      const { origin: _, ...shown } = part;
      return shown;
    }),
  };
}
