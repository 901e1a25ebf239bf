import { Type } from "@sinclair/typebox";
import { type ApprovalTier, REMEMBER } from "../../core/approval.ts";
import { HubError } from "../../core/error.ts";
import { HandedCredentials } from "../../core/handed_credentials.ts";
import { type IdSource, isId, parseId } from "../../core/id.ts";
import { accessOf } from "../../core/ownership.ts";
import type { Json } from "../../core/json.ts";
import { visibleJson } from "../../core/visible_text.ts";
import { shownHash } from "../../inference/approvals.ts";
import { Reason, RememberSeconds } from "../../run/assert_given.ts";
import type { HandedRuns } from "../../run/handed_runs.ts";
import { answerQuestion } from "../../run/approvals.ts";
import { assertMayAnswer } from "../../run/may_answer.ts";
import { findRun } from "../../run/owned.ts";
import {
  type ApprovalState,
  listApprovals,
  listRunApprovals,
  type StoredApproval,
} from "../../store/approvals.ts";
import type { Database } from "../../store/database.ts";
import { readRun, type RunKey } from "../../store/runs.ts";
import { findAskingRun, listOpenSubRuns } from "../../store/sub_runs.ts";
import type { Call } from "../call.ts";
import { HANDED_HEADER, HandedField, handedOf, type HandedOptions, handOver } from "../handed.ts";
import { listBody, listSchema } from "../list_body.ts";
import { jsonReply } from "../reply.ts";
import { defineRoute, type Route } from "../route.ts";
import { PageQuery, RunParams, Time } from "./schemas.ts";

/** What the approval routes need. */
export interface ApprovalsOptions extends HandedOptions {
  start: { db: Database; ids: IdSource; handed?: HandedRuns };
  /** Tells all replicas that a run may go on. */
  onClaimable(): void;
}

const STATES: readonly ApprovalState[] = ["pending", "approved", "denied", "expired", "cancelled"];
const State = Type.Union(STATES.map((state) => Type.Literal(state)));
const TIERS: readonly ApprovalTier[] = ["ask", "session", "always"];
const Tier = Type.Union(TIERS.map((tier) => Type.Literal(tier)));
const Reach = Type.Union(REMEMBER.map((reach) => Type.Literal(reach)));
const OrNull = { text: Type.Union([Type.String(), Type.Null()]) };

const ApprovalBody = Type.Object({
  id: Type.String(),
  runId: Type.String(),
  toolCallId: Type.String(),
  toolName: Type.String(),
  input: Type.Unknown({ description: "What a person would not see is written as an escape" }),
  risk: Type.String(),
  tainted: Type.Array(Type.String(), {
    description: "Where the run has read what others wrote, when that is why a person is asked",
  }),
  preview: Type.Unknown({
    description: "What the call is about to do; null where only the arguments tell",
  }),
  hash: Type.String({
    description: "Of the tool, what it says of itself, the arguments and the preview",
  }),
  tier: Type.Union(Tier.anyOf, {
    description:
      "ask: an answer may be remembered; session: it is, unless it says once; always: never",
  }),
  state: State,
  reason: OrNull.text,
  remember: Type.Union([Reach, Type.Null()], { description: "How far an approval reaches" }),
  decidedBy: OrNull.text,
  createdAt: Time,
  expiresAt: Time,
  decidedAt: Type.Union([Time, Type.Null()]),
  plan: Type.Unknown({ description: "Of a plan: what was shown of it" }),
  answer: Type.Unknown({ description: "Of a plan: its steps, where somebody has changed them" }),
});

const Answer = Type.Object({
  approved: Type.Boolean(),
  reason: Type.Optional(
    Type.String({ ...Reason, description: "Of a denial, the model reads it" }),
  ),
  remember: Type.Optional(Type.Union(Reach.anyOf, {
    description:
      "How far an approval reaches: this call (default), later calls of the tool in this session, or in all sessions of the run's key with this agent",
  })),
  rememberSeconds: Type.Optional(Type.Integer({
    ...RememberSeconds,
    description: "How long it is remembered; left out, until it is taken back",
  })),
  hash: Type.Optional(
    Type.String({
      maxLength: 100,
      description: "As it was shown: the answer holds for nothing else",
    }),
  ),
  ...HandedField,
}, { additionalProperties: false });

/** See and answer the questions whether a call may run. */
export function approvalRoutes(options: ApprovalsOptions): Route[] {
  const { start: { db, ids }, onClaimable } = options;
  return [
    defineRoute({
      method: "GET",
      path: "/v1/runs/:id/approvals",
      auth: "user",
      takesRoom: false,
      tag: "runs",
      summary: "What a run, and runs that it has asked for, have asked people, and their answers",
      params: RunParams,
      responses: {
        200: {
          description: "In the order in which it was asked",
          schema: listSchema(ApprovalBody, { formerly: "approvals" }),
        },
      },
      async handle({ params, principal }) {
        const key = await findRun(db, accessOf(principal), params.id);
        const { tenantId } = key;
        const own = await listRunApprovals(db, key);
        const below = await listOpenSubRuns(db, key);
        const others = below.map((runId) => listRunApprovals(db, { tenantId, runId }));
        const approvals = [...own, ...(await Promise.all(others)).flat()];
        return jsonReply(listBody(approvals.map(toBody), { formerly: "approvals" }));
      },
    }),
    defineRoute({
      method: "POST",
      path: "/v1/runs/:id/approvals/:approvalId",
      auth: "user",
      tag: "runs",
      takesRoom: false,
      summary: "Say whether a call may run",
      description:
        "On any replica. One answer counts; the run then goes on wherever it is claimed.",
      params: Type.Object({
        id: Type.String({ maxLength: 100 }),
        approvalId: Type.String({ maxLength: 100 }),
      }),
      headers: HANDED_HEADER,
      body: Answer,
      responses: {
        200: { description: "This answer counts", schema: ApprovalBody },
        400: { description: "It may not be remembered so" },
        409: { description: "It was answered, has expired, ended with its run, or is another" },
      },
      async handle(call) {
        const { params, principal, body } = call;
        const { approved, reason = null, hash = null } = body;
        const { remember = null, rememberSeconds = null } = body;
        const by = accessOf(principal);
        const { tenantId } = by;
        const approvalId = parseId("apr", params.approvalId);
        const asked = await findRun(db, by, params.id);
        const runId = await findAskingRun(db, { ...asked, approvalId }) ?? asked.runId;
        await assertMayAnswer(db, by, { runId, remember });
        await handToWaiting(call, { key: { tenantId, runId }, options });
        const answered = await answerQuestion(db, {
          tenantId,
          runId,
          approvalId,
          ...{ approved, reason, hash, by, remember, rememberSeconds, ids },
        });
        onClaimable();
        return jsonReply(toBody(answered));
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/approvals",
      auth: "admin",
      tag: "admin",
      summary: "What runs have asked people, the newest first",
      query: Type.Object({ status: Type.Optional(State), ...PageQuery }),
      responses: {
        200: {
          description: "A page of them",
          schema: listSchema(ApprovalBody, { formerly: "approvals" }),
        },
      },
      async handle({ query, principal: { tenantId } }) {
        const { status: state = null, limit = 50, after = null } = query;
        if (after !== null && !isId("apr", after)) {
          throw new HubError("invalid_request", "after is no cursor of this list", {
            param: "after",
          });
        }
        const page = await listApprovals(db, { tenantId, state, limit, after });
        const { nextCursor } = page;
        const approvals = page.approvals.map(toBody);
        return jsonReply(listBody(approvals, { formerly: "approvals", nextCursor }));
      },
    }),
  ];
}

/** Hands what a request brings to a run that waits: it goes on here, most likely, and has these credentials then. */
export async function handToWaiting(
  call: Pick<Call, "request" | "body" | "principal">,
  { key, options }: { key: RunKey; options: HandedOptions & Pick<ApprovalsOptions, "start"> },
): Promise<void> {
  const { start: { db, handed } } = options;
  const given = handedOf(call, options);
  if (given === null) return;
  const run = await readRun(db, key);
  if (run === null) throw new HubError("not_found", `There is no run ${key.runId}`);
  const here = handed?.get(key.runId) ?? null;
  const before = here ?? new HandedCredentials(new Map(), run.handedServers);
  handOver(given, { runId: key.runId, before });
  if (here === null && run.finishedAt === null) handed?.park(key.runId, before);
}

function toBody(approval: StoredApproval): typeof ApprovalBody.static {
  const { approvalId: id, argsHash: _, defHash: __, shownState: ___, ...shown } = approval;
  // People decide by this: what they would not see is an escape. The hash is of what runs.
  const visible = visibleJson(shown as unknown as Json) as unknown as typeof shown;
  return { id, hash: shownHash(approval), ...visible };
}
