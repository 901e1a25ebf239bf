import { Type } from "@sinclair/typebox";
import { HubError } from "../../core/error.ts";
import { type IdSource, isId, parseId } from "../../core/id.ts";
import { accessOf } from "../../core/ownership.ts";
import { type ApprovalGrant, listGrants, removeGrant } from "../../store/approval_grants.ts";
import type { Database } from "../../store/database.ts";
import { listBody, listSchema } from "../list_body.ts";
import { emptyReply, jsonReply } from "../reply.ts";
import { defineRoute, type Route } from "../route.ts";
import { PageQuery, Time } from "./schemas.ts";

/** What the routes of grants need. */
export interface ApprovalGrantsOptions {
  start: { db: Database; ids: IdSource };
}

const OrNull = { text: Type.Union([Type.String(), Type.Null()]) };

const GrantBody = Type.Object({
  id: Type.String(),
  keyId: Type.String({ description: "It holds in runs of this key" }),
  agent: Type.String(),
  toolName: Type.String(),
  defHash: Type.String({ description: "Of what the tool said of itself; it holds for no other" }),
  sessionId: Type.Union([Type.String(), Type.Null()], {
    description: "Null: in all sessions",
  }),
  tainted: Type.Array(Type.String(), {
    description: "It counts for runs that have read what others wrote from nowhere else",
  }),
  approvalId: Type.String({ description: "The question that was answered" }),
  grantedBy: OrNull.text,
  createdAt: Time,
  expiresAt: Type.Union([Time, Type.Null()]),
});

/** See and take back approvals that hold for later calls. */
export function approvalGrantRoutes({ start: { db, ids } }: ApprovalGrantsOptions): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/v1/approvals/grants",
      auth: "user",
      tag: "runs",
      summary: "Approvals that hold for later calls, the newest first",
      description: "Those for runs of the keys that the caller reaches: its owner's, or all.",
      query: Type.Object(PageQuery),
      responses: {
        200: {
          description: "A page of them",
          schema: listSchema(GrantBody, { formerly: "grants" }),
        },
      },
      async handle({ query, principal }) {
        const { limit = 50, after = null } = query;
        if (after !== null && !isId("grt", after)) {
          throw new HubError("invalid_request", "after is no cursor of this list", {
            param: "after",
          });
        }
        const { grants, nextCursor } = await listGrants(db, {
          ...accessOf(principal),
          limit,
          after,
        });
        return jsonReply(listBody(grants.map(toBody), { formerly: "grants", nextCursor }));
      },
    }),
    defineRoute({
      method: "DELETE",
      path: "/v1/approvals/grants/:id",
      auth: "user",
      tag: "runs",
      takesRoom: false,
      summary: "Take an approval of later calls back",
      description: "On all replicas at once: the next call asks again.",
      params: Type.Object({ id: Type.String({ maxLength: 100 }) }),
      responses: { 204: { description: "It is taken back" } },
      async handle({ params, principal }) {
        const grantId = parseId("grt", params.id);
        const audit = {
          auditId: ids.next("aud"),
          actorKeyId: principal.keyId,
          action: "grant.remove",
          details: {},
        };
        if (await removeGrant(db, { ...accessOf(principal), grantId, audit })) {
          return emptyReply();
        }
        throw new HubError("not_found", `There is no grant ${grantId}`);
      },
    }),
  ];
}

function toBody({ grantId: id, ...rest }: ApprovalGrant): typeof GrantBody.static {
  return { id, ...rest };
}
