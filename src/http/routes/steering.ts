import { Type } from "@sinclair/typebox";
import { HubError } from "../../core/error.ts";
import { type IdSource, parseId } from "../../core/id.ts";
import type { LiveRuns } from "../../run/live_runs.ts";
import type { Database } from "../../store/database.ts";
import { addSteering, MAX_STEERING, type StoredSteering } from "../../store/steering.ts";
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
        const added = await addSteering(start.db, { ...key, steeringId, clientId, kind, text });
        switch (added.kind) {
          case "no-run":
            throw new HubError("not_found", `There is no run ${runId}`);
          case "over":
            throw new HubError(
              "conflict",
              added.isStopping
                ? `${runId} is being stopped: the text was not taken, say it in a new message`
                : `${runId} does not run (${added.status}): the text was not taken, say it in a new message`,
              { clientCode: "run_over", details: { status: added.status } },
            );
          case "full":
            throw new HubError("conflict", `${runId} was told ${MAX_STEERING} texts already`, {
              clientCode: "run_full",
            });
        }
        const { steering } = added;
        if (steering.text !== text || steering.kind !== kind) {
          throw new HubError(
            "idempotency_mismatch",
            `The id ${clientId} came before with another text: a new text wants a new id`,
          );
        }
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
