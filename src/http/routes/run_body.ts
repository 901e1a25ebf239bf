import { Type } from "@sinclair/typebox";
import type { Database } from "../../store/database.ts";
import type { StoredRun } from "../../store/runs.ts";
import { listSteering } from "../../store/steering.ts";
import { UsageBody } from "./schemas.ts";
import { SteeringBody, toSteeringBody } from "./steering.ts";

/** A run as clients read it. */
export const RunBody = Type.Object({
  id: Type.String(),
  sessionId: Type.String(),
  messageId: Type.String(),
  agent: Type.String(),
  model: Type.String(),
  provider: Type.Union([Type.String(), Type.Null()]),
  parent: Type.Union([
    Type.Object({ runId: Type.String(), toolCallId: Type.String() }),
    Type.Null(),
  ], { description: "The call of another run that has begun it" }),
  status: Type.String(),
  finishReason: Type.Union([Type.String(), Type.Null()]),
  seq: Type.Integer({ description: "Last event in the log" }),
  usage: UsageBody,
  costMicros: Type.Union([Type.Integer(), Type.Null()]),
  estimated: Type.Boolean({
    description:
      "A part of usage and cost is the hub's estimate, of calls that broke off or told none",
  }),
  error: Type.Unknown(),
  createdAt: Type.String({ format: "date-time" }),
  finishedAt: Type.Union([Type.String({ format: "date-time" }), Type.Null()]),
  steering: Type.Array(SteeringBody, { description: "What was said to it since it began" }),
});

/** Reads what else clients are told of a run. */
export async function toRunBody(
  db: Database,
  tenantId: string,
  run: StoredRun,
): Promise<typeof RunBody.static> {
  const { runId } = run;
  const steering = run.steered === 0 ? [] : await listSteering(db, { tenantId, runId });
  return {
    id: run.runId,
    sessionId: run.sessionId,
    messageId: run.messageId,
    agent: run.agent,
    model: run.model,
    provider: run.provider,
    parent: run.parent,
    status: run.status,
    finishReason: run.finishReason,
    seq: run.lastSeq,
    usage: run.usage,
    costMicros: run.costMicros,
    estimated: run.estimated,
    error: run.error,
    createdAt: new Date(run.createdAt).toISOString(),
    finishedAt: run.finishedAt === null ? null : new Date(run.finishedAt).toISOString(),
    steering: steering.map(toSteeringBody),
  };
}
