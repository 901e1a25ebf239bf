import { Type } from "@sinclair/typebox";
import { parseId } from "../../core/id.ts";
import type { JsonObject } from "../../core/json.ts";
import { accessOf } from "../../core/ownership.ts";
import { QUESTION_STATES } from "../../core/run_question.ts";
import { visibleText } from "../../core/visible_text.ts";
import { giveAnswer } from "../../run/give_answer.ts";
import { findRun } from "../../run/owned.ts";
import type { LiveRuns } from "../../run/live_runs.ts";
import type { QuestionDesk } from "../../run/question_desk.ts";
import type { Database } from "../../store/database.ts";
import type { MasterKey } from "../../store/master_key.ts";
import { listRunQuestions, type StoredQuestion } from "../../store/questions.ts";
import { listOpenSubRuns } from "../../store/sub_runs.ts";
import { listBody, listSchema } from "../list_body.ts";
import { jsonReply } from "../reply.ts";
import { defineRoute, type Route } from "../route.ts";
import { RunParams, Time } from "./schemas.ts";

/** What the routes of questions need. */
export interface QuestionsOptions {
  start: { db: Database };
  follow: { live: Pick<LiveRuns, "get"> };
  masterKey: MasterKey;
  questions: QuestionDesk;
  /** Tells the other replicas that a run which is not driven here was answered. */
  onRequestElsewhere(runId: string): void;
}

const OrNull = { text: Type.Union([Type.String(), Type.Null()]) };

const QuestionBody = Type.Object({
  id: Type.String(),
  runId: Type.String(),
  toolCallId: Type.String(),
  source: Type.String({ description: "The MCP server, as its tools are known by" }),
  kind: Type.String(),
  message: Type.String(),
  schema: Type.Optional(Type.Unknown({ description: "Of a form: what is to be filled in" })),
  url: Type.Optional(Type.String({ description: "An address that the person is to open" })),
  model: Type.Optional(Type.String({ description: "Of sampling: the model to be asked" })),
  maxTokens: Type.Optional(Type.Integer({ description: "Of sampling: most tokens of its answer" })),
  state: Type.Union(QUESTION_STATES.map((state) => Type.Literal(state))),
  decidedBy: OrNull.text,
  createdAt: Time,
  expiresAt: Time,
  decidedAt: Type.Union([Time, Type.Null()]),
});

const Answer = Type.Object({
  action: Type.Union([Type.Literal("accept"), Type.Literal("decline"), Type.Literal("cancel")]),
  content: Type.Optional(Type.Record(Type.String(), Type.Unknown(), {
    description: "With accept of a form: its fields",
  })),
}, { additionalProperties: false });

/** See and answer what tools ask people in the middle of a call. */
export function questionRoutes(options: QuestionsOptions): Route[] {
  const { start: { db }, follow, masterKey, questions, onRequestElsewhere } = options;
  return [
    defineRoute({
      method: "GET",
      path: "/v1/runs/:id/questions",
      auth: "user",
      takesRoom: false,
      tag: "runs",
      summary: "What the tools of a run, and of runs that it has asked for, have asked people",
      params: RunParams,
      responses: {
        200: {
          description: "In the order in which it was asked, without what was answered",
          schema: listSchema(QuestionBody, { formerly: "questions" }),
        },
      },
      async handle({ params, principal }) {
        const key = await findRun(db, accessOf(principal), params.id);
        const { tenantId } = key;
        const below = await listOpenSubRuns(db, key);
        const runs = [key, ...below.map((runId) => ({ tenantId, runId }))];
        const found = (await Promise.all(runs.map((run) => listRunQuestions(db, run)))).flat();
        return jsonReply(listBody(found.map(toBody), { formerly: "questions" }));
      },
    }),
    defineRoute({
      method: "POST",
      path: "/v1/runs/:id/questions/:questionId",
      auth: "user",
      tag: "runs",
      takesRoom: false,
      summary: "Answer what a tool has asked",
      description: "On any replica. One answer counts; the call goes on with it.",
      params: Type.Object({
        id: Type.String({ maxLength: 100 }),
        questionId: Type.String({ maxLength: 100 }),
      }),
      body: Answer,
      responses: {
        200: { description: "This answer counts", schema: QuestionBody },
        400: { description: "The content does not fit what was asked" },
        409: { description: "It was answered, has expired, or ended with its call" },
      },
      async handle({ params, principal, body }) {
        const by = accessOf(principal);
        const { tenantId, runId } = await findRun(db, by, params.id);
        const { action, content } = body;
        const answered = await giveAnswer(db, {
          tenantId,
          runId,
          questionId: parseId("qst", params.questionId),
          action,
          content: content as JsonObject | undefined,
          by,
        }, masterKey);
        if (follow.live.get(runId) === undefined) onRequestElsewhere(runId);
        else await questions.check([runId]);
        return jsonReply(toBody(answered));
      },
    }),
  ];
}

function toBody(question: StoredQuestion): typeof QuestionBody.static {
  const { questionId: id, runId, toolCallId, source, kind, message, asked, state, ...rest } =
    question;
  const { schema, url, model, maxTokens } = asked;
  const { decidedBy, createdAt, expiresAt, decidedAt } = rest;
  return {
    ...{ id, runId, toolCallId, source: visibleText(source), kind, message: visibleText(message) },
    ...schema === undefined ? {} : { schema },
    ...typeof url === "string" ? { url } : {},
    ...typeof model === "string" ? { model } : {},
    ...typeof maxTokens === "number" ? { maxTokens } : {},
    ...{ state, decidedBy, createdAt, expiresAt, decidedAt },
  };
}
