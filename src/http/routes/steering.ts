import { Type } from "@sinclair/typebox";
import { HubError } from "../../core/error.ts";
import { HandedCredentials } from "../../core/handed_credentials.ts";
import type { IdSource } from "../../core/id.ts";
import { accessOf } from "../../core/ownership.ts";
import { ClientId, SteeringText } from "../../run/assert_given.ts";
import type { HandedRuns } from "../../run/handed_runs.ts";
import type { LiveRuns } from "../../run/live_runs.ts";
import { findRun } from "../../run/owned.ts";
import { sayToRun } from "../../run/say_to_run.ts";
import type { Database } from "../../store/database.ts";
import type { StoredSteering } from "../../store/steering.ts";
import { HANDED_HEADER, HandedField, handedOf, type HandedOptions, handOver } from "../handed.ts";
import { jsonReply } from "../reply.ts";
import { defineRoute, type Route } from "../route.ts";
import { RunParams, Time } from "./schemas.ts";

/** What the steering routes need. */
export interface SteeringOptions extends HandedOptions {
  start: { db: Database; ids: IdSource; handed?: HandedRuns };
  follow: { live: Pick<LiveRuns, "get"> };
  /** Tells the other replicas that a run which is not driven here was told something. */
  onRequestElsewhere(runId: string): void;
}

const Kind = Type.Union([Type.Literal("steer"), Type.Literal("queue")]);

const NewSteeringBody = Type.Object({
  id: Type.Optional(
    Type.String({
      ...ClientId,
      description: "The client's id: posting it again says nothing more",
    }),
  ),
  text: SteeringText,
  kind: Type.Optional(Type.Union(Kind.anyOf, {
    description: "steer (default): read at the next step; queue: when the run would have finished",
  })),
  ...HandedField,
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
export function steeringRoutes(options: SteeringOptions): Route[] {
  const { start, follow, onRequestElsewhere } = options;
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
      headers: HANDED_HEADER,
      body: NewSteeringBody,
      responses: {
        202: { description: "It is said, now or before", schema: SteeringBody },
        409: { description: "The run is over, is being stopped, or was told too much" },
        422: { description: "The id came before with another text" },
      },
      async handle(call) {
        const { params, principal, body } = call;
        const key = await findRun(start.db, accessOf(principal), params.id);
        const { runId } = key;
        const given = handedOf(call, options);
        const { id: clientId = null, text, kind = "steer" } = body;
        const steeringId = start.ids.next("steer");
        if (given !== null) handOver(given, { runId, before: handedHere(runId, options) });
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

/** What a run that is driven here was handed. Throws `conflict` when it is driven elsewhere: credentials go no further. */
function handedHere(runId: string, { start, follow }: SteeringOptions): HandedCredentials {
  const before = start.handed?.get(runId) ?? null;
  if (before !== null) return before;
  if (follow.live.get(runId) !== undefined) return new HandedCredentials(new Map());
  throw new HubError(
    "conflict",
    `${runId} is not driven by this replica, and a credential goes to no other: send it again`,
    { clientCode: "run_elsewhere" },
  );
}

/** The text as the API shows it. */
export function toSteeringBody(steering: StoredSteering): typeof SteeringBody.static {
  const { steeringId: id, clientId, kind, text, state, createdAt, decidedAt } = steering;
  return { id, clientId, kind, text, state, createdAt, decidedAt };
}
