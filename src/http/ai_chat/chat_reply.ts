import type { HubEvent } from "../../core/event.ts";
import { type FollowOptions, followRun } from "../../run/follow_run.ts";
import type { StartedRun } from "../../run/start_run.ts";
import { type AiSdkLevel, parseStreamLevel } from "../../wire/ai_sdk_chunk.ts";
import { AI_SDK_HEADERS } from "../../wire/ai_sdk_stream.ts";
import type { ByteSource } from "../byte_source.ts";
import type { Call } from "../call.ts";
import type { Reply } from "../reply.ts";
import { aiSdkSource, type AiSdkSourceOptions } from "../routes/run_source.ts";
import { eventsOf } from "../routes/runs.ts";
import { sseReply } from "../sse_response.ts";
import { lateSource } from "./late_source.ts";

const { "content-type": _, ...HEADERS } = AI_SDK_HEADERS;

/** The header by which clients say what they understand. */
export const LEVEL_HEADER = {
  "hub-stream-level": "What the client understands: 5 (default), 6 or 7 (docs/events.md)",
};

/** The stream of a run that was started, with headers that say more of it. */
export function startedReply(
  call: Call,
  { started, headers }: { started: StartedRun; headers: Readonly<Record<string, string>> },
  follow: FollowOptions,
): Reply {
  return toReply(call, sourceOf(call, started, follow), headers);
}

/** The stream of a run that begins later. */
export function queuedReply(
  call: Call,
  started: Promise<StartedRun>,
  follow: FollowOptions,
): Reply {
  return toReply(call, lateSource(started.then((run) => sourceOf(call, run, follow))));
}

/** The stream of a run that is there: all of it, or what its client has not. */
export function followedReply(
  call: Call,
  { runId, ...shown }: { runId: string } & Omit<AiSdkSourceOptions, "level">,
  follow: FollowOptions,
): Reply {
  const { principal: { tenantId }, signal } = call;
  const from = { tenantId, runId, after: 0, signal, untilWaiting: endsWhereItWaits(call) };
  const events = followRun(from, follow);
  return toReply(call, aiSdkSource(events, { level: levelOf(call), ...shown }));
}

/** Whether this event is the one by which a text was said to its run. */
export function isSteering(event: HubEvent, steeringId: string): boolean {
  return event.type === "data" && event.name === "steering" && event.id === steeringId;
}

function sourceOf(call: Call, started: StartedRun, follow: FollowOptions): ByteSource {
  const untilWaiting = endsWhereItWaits(call);
  return aiSdkSource(eventsOf(call, started, follow, { untilWaiting }), { level: levelOf(call) });
}

function toReply(
  { clock }: Call,
  source: ByteSource,
  headers: Readonly<Record<string, string>> = {},
): Reply {
  return sseReply(source, { clock, headers: { ...HEADERS, ...headers } });
}

function levelOf({ request }: Pick<Call, "request">): AiSdkLevel {
  return parseStreamLevel(request.header("hub-stream-level"));
}

/** Clients of a level with approvals of their own answer in a request of its own, for which the stream has to end. */
function endsWhereItWaits(call: Pick<Call, "request">): boolean {
  return levelOf(call) >= 6;
}
