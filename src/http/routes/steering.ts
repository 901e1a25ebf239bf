import { Type } from "@sinclair/typebox";
import { type IdSource, parseId } from "../../core/id.ts";
import type { LiveRuns } from "../../run/live_runs.ts";
import { sayToRun } from "../../run/say_to_run.ts";
import type { Database } from "../../store/database.ts";
import type { StoredSteering } from "../../store/steering.ts";
import { jsonReply } from "../reply.ts";
import { defineRoute, type Route } from "../route.ts";
import { RunParams, Time } from "./schemas.ts";

/** What the steering routes need. */
export interface SteeringOptions {
  start: { db: Database; ids: IdSource };
  follow: { live: Pick<LiveRuns, "get"> };
  /** Tells the other replicas that a run which is not driven here was told something. */
  onRequestElsewhere(runId: string): void;
}

const Kind = Type.Union([Type.Literal("steer"), Type.Literal("queue")]);

const NewSteeringBody = Type.Object({
  id: Type.Optional(Type.String({
    minLength: 1,
    maxLength: 200,
    description: "The client's id: posting it again says nothing more",
  })),
  text: Type.String({ minLength: 1, maxLength: 100_000 }),
  kind: Type.Optional(Type.Union(Kind.anyOf, {
    description: "steer (default): read at the next step; queue: when the run would have finished",
  })),
}, { additionalProperties: false });

/** A text said to a run, as the API shows it. */
export const SteeringBody = Type.Object({
  id: Type.String(),
  clientId: Type.Union([Type.String(), Type.Null()]),
  kind: Kind,
  text: Type.String(),
  state: Type.Union([
    Type.Literal("pending"),
    Type.Literal("applied"),
    Type.Literal("undelivered"),
  ]),
  createdAt: Time,
  decidedAt: Type.Union([Time, Type.Null()]),
});

/** Say something to a run that goes on. */
export function steeringRoutes({ start, follow, onRequestElsewhere }: SteeringOptions): Route[] {
  return [
    defineRoute({
      method: "POST",
      path: "/v1/runs/:id/steer",
      auth: "user",
      tag: "runs",
      summary: "Say something to a run that goes on",
      description:
        "On any replica. `steer` is read at the next step, `queue` when the run would otherwise have finished; " +
        "what an error or a stop comes before is `undelivered`.",
      params: RunParams,
      body: NewSteeringBody,
      responses: {
        202: { description: "It is said, now or before", schema: SteeringBody },
        409: { description: "The run is over, is being stopped, or was told too much" },
        422: { description: "The id came before with another text" },
      },
      async handle({ params, principal, body }) {
        const runId = parseId("run", params.id);
        const { id: clientId = null, text, kind = "steer" } = body;
        const key = { tenantId: principal.tenantId, runId };
        const steeringId = start.ids.next("steer");
        const said = { ...key, steeringId, clientId, kind, text };
        const steering = await sayToRun(start.db, said);
        const run = follow.live.get(runId);
        if (run === undefined) onRequestElsewhere(runId);
        else run.steering.tell(steering.position);
        return jsonReply(toSteeringBody(steering), { status: 202 });
      },
    }),
  ];
}

/** The text as the API shows it. */
export function toSteeringBody(steering: StoredSteering): typeof SteeringBody.static {
  const { steeringId: id, clientId, kind, text, state, createdAt, decidedAt } = steering;
  return { id, clientId, kind, text, state, createdAt, decidedAt };
}
