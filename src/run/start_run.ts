import { createHash } from "node:crypto";
import type { Clock } from "../core/clock.ts";
import { HubError } from "../core/error.ts";
import type { HandedCredentials } from "../core/handed_credentials.ts";
import type { IdSource } from "../core/id.ts";
import { canonicalJson, type Json, type JsonObject } from "../core/json.ts";
import type { Log } from "../core/log.ts";
import type { CallModel } from "../core/model.ts";
import type { ContextFact } from "../core/context_events.ts";
import type { ModelWindow } from "../core/tokenizer.ts";
import type { Principal, Tool } from "../core/tool.ts";
import type { Usage } from "../core/usage.ts";
import type { UIMessage, UIPart } from "../core/ui_message.ts";
import { runAgent } from "../inference/agent_loop.ts";
import type {
  AgentSettings,
  ExecuteTool,
  RunResume,
  ToolInstructions,
} from "../inference/agent_run.ts";
import { parseArguments } from "../operations/parse_arguments.ts";
import { createWireNames } from "../operations/wire_names.ts";
import type { KeyPolicy } from "../policy/key_policy.ts";
import { assertAgent } from "../policy/may_call.ts";
import { type CreatedRun, createRun, FIRST_EPOCH, type NewRun } from "../store/create_run.ts";
import type { Database } from "../store/database.ts";
import { readHistory, supersedeLastAnswer } from "../store/messages.ts";
import { releaseLease, type RunKey } from "../store/runs.ts";
import type { Span, Tracing } from "../telemetry/tracing.ts";
import type { HandedRuns } from "./handed_runs.ts";
import type { LiveRun } from "./live_run.ts";
import type { BeginLoop, LiveRuns } from "./live_runs.ts";
import { permit } from "./permit.ts";
import { endRunSpan, startRunSpan } from "./run_span.ts";
import { type RecordedRun, SEQ_BLOCK } from "./recorder.ts";

/** An agent that can be run: its settings, its tools and how it calls its models. */
export interface RunnableAgent {
  settings: AgentSettings;
  /** Public name of its first model. */
  model: string;
  tools: readonly Tool[];
  /** How the sources of some tools want them to be used. */
  instructions?: readonly ToolInstructions[];
  /** The same agent for a caller, once its tools are known, or were waited for long enough. */
  prepare?(principal: Principal, handed: HandedCredentials | null): Promise<RunnableAgent>;
  /** Ends what there is for this run alone, once it is over here. Never rejects. */
  release?(): Promise<void>;
  /** A model for one run; `requestId` goes into the usage rows. */
  callModel(facts: RunFactsForCalls): CallModel;
  /** What its model can read. */
  window?(): ModelWindow;
  /** The most that such a call may have cost, in millionths of a US dollar; null when nobody can tell. */
  costOf?(usage: Usage): number | null;
}

/** Whose run, for the usage rows of its model calls. */
export interface RunFactsForCalls {
  principal: Principal;
  requestId: string;
  sessionId: string;
  runId: string;
  /** How a trace tells the run. */
  span?: Span | null;
}

/** What starting runs needs. */
export interface StartOptions {
  db: Database;
  live: LiveRuns;
  executeTool: ExecuteTool;
  clock: Clock;
  ids: IdSource;
  random: () => number;
  log: Log;
  /** Names this replica in the lease. */
  owner: string;
  leaseMs: number;
  /** How long a person is waited for who is asked whether a call may run. */
  approvalTimeoutMs: number;
  /** Told how much room requests of runs leave. */
  observeContext?(fact: ContextFact): void;
  /** Begins traces of runs that nobody's request begins. */
  tracing?: Tracing | null;
  /** Credentials that runs were handed. */
  handed?: HandedRuns;
  /** What a key may do; without it any key runs any agent. */
  policyOf?(keyId: string): KeyPolicy;
}

/** A wish for a run. */
export interface StartRun {
  principal: Principal;
  requestId: string;
  /** Of the request, null when it is not traced; left out where there is no request. */
  span?: Span | null;
  sessionId: string;
  agent: RunnableAgent;
  /** Null: the last user message is answered once more. */
  message: { clientId: string | null; parts: UIPart[] } | null;
  /** What the request is known by, so that it may come twice. */
  idempotency?: NewRun["idempotency"];
  /** Further fields of the requests to the model, for as long as it is driven here. */
  extra?: JsonObject | undefined;
  /** Credentials for its calls of single MCP servers; null or left out for none. */
  handed?: HandedCredentials | null;
}

/** A run that has been started, now or by an earlier request with the same message id or key. */
export interface StartedRun {
  runId: string;
  messageId: string;
  /** The run when it was started now; else it is followed like any other. */
  live: LiveRun | null;
}

/**
 * Writes the message and begins its run. Throws `permission_denied` for an agent that the key may not run, `not_found` for an unknown session, `conflict` when a run of the
 * session goes on, `idempotency_mismatch` when the message id or the key came before with other content.
 */
export async function startRun(wish: StartRun, options: StartOptions): Promise<StartedRun> {
  const { db, ids } = options;
  const { principal, sessionId } = wish;
  const { tenantId } = principal;
  assertAgent(options.policyOf?.(principal.keyId) ?? {}, wish.agent.settings.name);
  const handed = wish.handed ?? null;
  const agent = await wish.agent.prepare?.(principal, handed) ?? wish.agent;
  const runId = ids.next("run");
  const messageId = ids.next("msg");
  const userMessageId = ids.next("msg");
  const parts = wish.message?.parts ?? [];
  const leasedMs = options.clock.monotonic();
  let created: CreatedRun;
  let history: UIMessage[] = [];
  try {
    created = await createRun(db, {
      tenantId,
      sessionId,
      runId,
      messageId,
      agent: agent.settings.name,
      model: agent.model,
      owner: options.owner,
      leaseMs: options.leaseMs,
      reserve: SEQ_BLOCK,
      caller: { keyId: principal.keyId, requestId: wish.requestId },
      ...handed === null ? {} : { handedServers: handed.servers },
      idempotency: wish.idempotency ?? null,
      userMessage: wish.message === null ? null : {
        messageId: userMessageId,
        clientId: wish.message.clientId ?? userMessageId,
        hash: hashOf(parts),
        parts,
      },
    });
    if (created.kind === "created") {
      if (wish.message === null) {
        await supersedeLastAnswer(db, { tenantId, sessionId, newMessageId: messageId });
      }
      history = await readHistory(db, { tenantId, sessionId });
    }
  } catch (error) {
    await agent.release?.();
    releaseUndriven({ tenantId, runId }, options);
    throw error;
  }
  if (created.kind !== "created") await agent.release?.();
  switch (created.kind) {
    case "no-session":
      throw new HubError("not_found", `There is no session ${sessionId}`);
    case "mismatch":
      throw new HubError(
        "idempotency_mismatch",
        created.of === "key"
          ? "This Idempotency-Key came before with another body: another request wants a new key"
          : `The message id ${wish.message?.clientId} came before with other content: a new message wants a new id`,
      );
    case "busy":
      throw new HubError(
        "conflict",
        `The session is busy with ${created.runId}: follow it at /v1/runs/${created.runId}/stream, or stop it first`,
        { clientCode: "run_active", details: { activeRun: created.runId } },
      );
    case "duplicate":
      return { runId: created.runId, messageId: created.messageId, live: null };
    case "created":
      break;
  }
  const record = {
    tenantId,
    sessionId,
    runId,
    messageId,
    agent: agent.settings.name,
    epoch: created.epoch,
    leasedMs,
    lastSeq: 0,
    reservedTo: SEQ_BLOCK,
  };
  const { requestId } = wish;
  const asked = wish.span === undefined ? {} : { parent: wish.span };
  const driven = withExtra(agent, wish.extra);
  const live = driveRun(
    { record, agent: driven, principal, requestId, history, handed, ...asked },
    options,
  );
  return { runId, messageId, live };
}

/** A run that is ours, to be driven from its beginning or from where `resume` says. */
export interface DrivenRun {
  record: RecordedRun;
  agent: RunnableAgent;
  principal: Principal;
  requestId: string;
  history: readonly UIMessage[];
  resume?: RunResume;
  /** As in `StartRun`. */
  parent?: Span | null;
  handed?: HandedCredentials | null;
  /** How many texts were said to it before. */
  steered?: number;
  /** Somebody has asked to stop it. */
  stopRequested?: boolean;
}

/** Drives a run; returns at once. */
export function driveRun(
  driven: DrivenRun,
  options: StartOptions,
): LiveRun {
  const {
    record,
    agent,
    principal,
    requestId,
    history,
    resume,
    steered = 0,
    stopRequested = false,
    handed = null,
  } = driven;
  const { runId, sessionId, messageId } = record;
  const { window } = agent;
  const { observeContext } = options;
  const log = options.log.with({ runId, sessionId, requestId });
  const span = startRunSpan(driven, options);
  const begin: BeginLoop = (signal, steering) =>
    runAgent({
      runId,
      sessionId,
      messageId,
      model: agent.model,
      settings: agent.settings,
      history,
      ...(resume === undefined ? {} : { resume }),
      tools: agent.tools,
      instructions: agent.instructions ?? [],
      principal,
      callModel: agent.callModel({ principal, requestId, sessionId, runId, span }),
      ...(window === undefined ? {} : { window }),
      ...(observeContext === undefined ? {} : { observeContext }),
      executeTool: options.executeTool,
      span,
      parseArguments,
      wireNames: createWireNames(agent.tools.map((tool) => tool.name)),
      permit,
      approvalTimeoutMs: options.approvalTimeoutMs,
      mustLeave: () => options.live.isLeaving,
      signal,
      steering,
      clock: options.clock,
      ids: options.ids,
      random: options.random,
      log,
    });
  const events = resume?.events ?? [];
  if (handed !== null) options.handed?.hold(runId, handed);
  const live = options.live.drive(record, begin, { log, events, steered, stopRequested });
  void live.done.then(() => {
    if (handed !== null) options.handed?.leave(live, handed);
    return agent.release?.();
  });
  if (span !== null) endRunSpan(span, live, options.clock);
  return live;
}

function withExtra(agent: RunnableAgent, extra: JsonObject | undefined): RunnableAgent {
  if (extra === undefined) return agent;
  const { settings } = agent;
  return { ...agent, settings: { ...settings, extra: { ...settings.extra, ...extra } } };
}

/** Lets a run go that may have been begun and that nobody drives: housekeeping takes it up, or finds its lease run out. */
function releaseUndriven(key: RunKey, { db, log }: StartOptions): void {
  releaseLease(db, { ...key, epoch: FIRST_EPOCH }).catch((error: unknown) =>
    log.warn("A run that could not be started keeps its lease until it runs out", {
      runId: key.runId,
      error,
    })
  );
}

function hashOf(parts: readonly UIPart[]): string {
  return createHash("sha256").update(canonicalJson(parts as unknown as Json)).digest("hex");
}
