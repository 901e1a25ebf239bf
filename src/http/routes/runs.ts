import { Type } from "@sinclair/typebox";
import { HubError } from "../../core/error.ts";
import { accessOf } from "../../core/ownership.ts";
import type { UIPart } from "../../core/ui_message.ts";
import type { FindAgent } from "../../run/create_agents.ts";
import { type Follow, followOn, type FollowOptions, followRun } from "../../run/follow_run.ts";
import { hasEnded } from "../../run/look_at_log.ts";
import { REPLAYED_HEADERS } from "../../run/idempotent_answers.ts";
import { findRun, findSession } from "../../run/owned.ts";
import { type StartedRun, startRun } from "../../run/start_run.ts";
import type { StartOptions } from "../../run/runnable_agent.ts";
import { type StopOptions, stopRun } from "../../run/stop_run.ts";
import { readMessage } from "../../store/messages.ts";
import { readRun, type StoredRun } from "../../store/runs.ts";
import { askedAgent } from "../asked_agent.ts";
import { answerFormatOf } from "../answer_format.ts";
import type { Call } from "../call.ts";
import { HANDED_HEADER, handedOf, type HandedOptions } from "../handed.ts";
import { IDEMPOTENCY_HEADER, readIdempotencyKey, runIdempotency } from "../idempotency_key.ts";
import { jsonReply, type Reply } from "../reply.ts";
import { defineRoute, type Route } from "../route.ts";
import { preflightOf } from "../run_limits.ts";
import { sseReply } from "../sse_response.ts";
import { RunBody, toRunBody } from "./run_body.ts";
import { runFailure } from "./run_failure.ts";
import { type RunEvents, uiSource } from "./run_source.ts";
import { MessageBody, NewMessageBody, RunParams, SessionParams } from "./schemas.ts";
import { toShown } from "./sessions.ts";

/** What the run routes need. */
export interface RunsOptions extends StopOptions, HandedOptions {
  start: StartOptions;
  follow: FollowOptions;
  findAgent: FindAgent;
}

/** Post a message, and read, follow and stop the run that answers it. */
export function runRoutes(options: RunsOptions): Route[] {
  const { db } = options.start;
  return [
    defineRoute({
      method: "POST",
      path: "/v1/sessions/:id/messages",
      auth: "user",
      tag: "runs",
      summary: "Say something to the session's agent",
      description:
        "Streams the run's events; `stream: false` gives the final message. The run outlives the client.",
      params: SessionParams,
      headers: { ...IDEMPOTENCY_HEADER, ...HANDED_HEADER },
      body: NewMessageBody,
      responses: {
        200: {
          description: "Events; with `stream: false` the message and its run",
          schema: Type.Object({ message: MessageBody, run: RunBody }),
          orStream: true,
        },
        409: { description: "A run of the session goes on" },
        422: { description: "The message id or the key came before with other content" },
        502: { description: "Without a stream: the run failed; other statuses by its error" },
        503: { description: "Without a stream: the run goes on elsewhere" },
      },
      handle: (call) => post(call, options),
    }),
    defineRoute({
      method: "GET",
      path: "/v1/runs/:id",
      auth: "user",
      takesRoom: false,
      tag: "runs",
      summary: "One run",
      params: RunParams,
      responses: {
        200: {
          description: "The run, and what was said to it since it began",
          schema: RunBody,
        },
      },
      async handle({ params, principal }) {
        const key = await findRun(db, accessOf(principal), params.id);
        const run = await readRun(db, key);
        if (run === null) throw new HubError("not_found", `There is no run ${key.runId}`);
        return jsonReply(await toRunBody(db, key.tenantId, run));
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/runs/:id/stream",
      auth: "user",
      tag: "runs",
      takesRoom: false,
      summary: "Follow a run from a cursor",
      description:
        "All durable events behind `Last-Event-ID` or `after`, then live ones; works after the end too.",
      params: RunParams,
      query: Type.Object({
        after: Type.Optional(
          Type.String({ maxLength: 30, description: "Number of the last event that is known" }),
        ),
      }),
      headers: { "last-event-id": "As `after`, and wins over it" },
      responses: { 200: { description: "Events", contentType: "text/event-stream" } },
      async handle(call) {
        const run = await findRun(db, accessOf(call.principal), call.params.id);
        const after = parseCursor(call.request.header("last-event-id") ?? call.query.after);
        return await streamReply(
          call,
          followRun({ ...run, after, signal: call.signal }, options.follow),
        );
      },
    }),
    defineRoute({
      method: "POST",
      path: "/v1/runs/:id/stop",
      auth: "user",
      tag: "runs",
      takesRoom: false,
      summary: "Stop a run",
      params: RunParams,
      responses: {
        202: {
          description: "It stops, or has ended already",
          schema: Type.Object({
            id: Type.String(),
            stopping: Type.Boolean(),
            status: Type.String({ description: "Before it stopped" }),
          }),
        },
      },
      async handle({ params, principal }) {
        const run = await findRun(db, accessOf(principal), params.id);
        const { runId } = run;
        const stopped = await stopRun({ ...run, reason: "stopped by the user" }, options);
        if (stopped === null) throw new HubError("not_found", `There is no run ${runId}`);
        return jsonReply({ id: runId, stopping: stopped.stopped, status: stopped.status }, {
          status: 202,
        });
      },
    }),
  ];
}

/** A cursor as a number; anything that is none replays from the start. */
function parseCursor(text: string | null | undefined): number {
  return text !== null && text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : 0;
}

type PostCall = Call<{ id: string }, unknown, typeof NewMessageBody.static>;

async function post(call: PostCall, options: RunsOptions): Promise<Reply> {
  const { body, principal } = call;
  if ((body.text === undefined) === (body.parts === undefined)) {
    throw new HubError("invalid_request", "A message wants either text or parts", {
      param: "text",
    });
  }
  const session = await findSession(options.start.db, accessOf(principal), call.params.id);
  const given = body.parts ?? [{ type: "text" as const, text: body.text ?? "" }];
  const parts = given.map((part, index): UIPart =>
    part.type === "text"
      ? { type: "text", id: `text-${index}`, text: part.text, state: "done" }
      : { ...part }
  );
  const started = await startRun({
    principal,
    requestId: call.requestId,
    span: call.span,
    sessionId: session.id,
    agent: askedAgent(
      { ...body, agent: body.agent ?? session.agent, keyId: principal.keyId },
      options,
    ),
    message: { clientId: body.id ?? null, parts },
    budget: body.budget,
    format: answerFormatOf(body),
    preflight: preflightOf(body.preflight),
    handed: handedOf(call, options),
    idempotency: await runIdempotency(call, session.id),
  }, options.start);
  if (body.stream === false) return await finalMessage(call, started, options);
  return await streamReply(call, eventsOf(call, started, options.follow), {
    "x-loophub-run": started.runId,
    ...replayHeaders(started),
  });
}

/**
 * The run's events from its first one on: live when it was started here, else as anybody follows it. A client that
 * leaves has left the run's readers at once, whether it has read anything or not. With `untilWaiting` they end where the
 * run waits for people, as `followRun` says.
 */
export function eventsOf(
  call: Pick<Call, "signal"> & { principal: { tenantId: string } },
  started: Pick<StartedRun, "runId" | "live">,
  follow: FollowOptions,
  { untilWaiting = false }: Pick<Follow, "untilWaiting"> = {},
): RunEvents {
  const { principal: { tenantId }, signal } = call;
  const from = { tenantId, runId: started.runId, after: 0, signal, untilWaiting };
  if (started.live !== null) {
    const subscriber = started.live.broadcast.subscribe();
    signal.addEventListener("abort", () => subscriber.close(), { once: true });
    if (signal.aborted) subscriber.close();
    return followOn(subscriber, from, follow);
  }
  return followRun(from, follow);
}

async function finalMessage(
  call: PostCall,
  started: StartedRun,
  options: RunsOptions,
): Promise<Reply> {
  const { tenantId } = call.principal;
  const { db } = options.start;
  const run = await awaitEnd(call, started, options);
  const message = await readMessage(db, { tenantId, messageId: started.messageId });
  if (run === null || message === null) {
    throw new HubError("not_found", `The message of ${started.runId} is gone`);
  }
  const mayRepeat = call.body.id !== undefined || readIdempotencyKey(call) !== null;
  const failure = runFailure(run, { mayRepeat });
  if (failure !== null) return failure;
  const body = { message: toShown(message), run: await toRunBody(db, tenantId, run) };
  return jsonReply(body, { headers: { "x-loophub-run": run.runId, ...replayHeaders(started) } });
}

/** The run as it is at its end, wherever that comes: here, or on the replica that it was left to. Null when it is gone. */
async function awaitEnd(
  { principal: { tenantId }, signal }: PostCall,
  { runId, live }: StartedRun,
  { follow: { stopped: _, ...follow } }: RunsOptions,
): Promise<StoredRun | null> {
  if (live !== null) {
    const left = Promise.withResolvers<void>();
    signal.addEventListener("abort", () => left.resolve(), { once: true });
    await Promise.race([live.done, left.promise]);
  }
  for (;;) {
    const run = await readRun(follow.db, { tenantId, runId });
    if (run === null || hasEnded(run) || signal.aborted) return run;
    for await (const _ of followRun({ tenantId, runId, after: run.lastSeq, signal }, follow));
  }
}

/** Says of a run that another request has started it. */
export function replayHeaders({ live }: StartedRun): Readonly<Record<string, string>> {
  return live === null ? REPLAYED_HEADERS : {};
}

/** Waits for the first events, so that what is wrong becomes an error answer and not a broken stream. */
async function streamReply(
  call: Call,
  events: RunEvents,
  headers: Record<string, string> = {},
): Promise<Reply> {
  const first = await events.next();
  return sseReply(uiSource(events, first), { clock: call.clock, headers });
}
