import { createHash } from "node:crypto";
import type { AnswerFormat } from "../core/answer_format.ts";
import { HubError } from "../core/error.ts";
import type { HandedCredentials } from "../core/handed_credentials.ts";
import { canonicalJson, type Json } from "../core/json.ts";
import { accessOf, belongingOf } from "../core/ownership.ts";
import { WorkStretch } from "../core/next_turn.ts";
import { describeKeyEnd } from "../core/key_end.ts";
import type { PreflightWhen } from "../core/preflight.ts";
import type { RunBudget } from "../core/run_budget.ts";
import { SUB_AGENTS } from "../core/sub_run_event.ts";
import type { Principal, Tool } from "../core/tool.ts";
import type { UIMessage, UIPart } from "../core/ui_message.ts";
import { createStructuredAnswer } from "../operations/structured_answer.ts";
import { assertAgent } from "../policy/may_call.ts";
import { type CreatedRun, createRun, FIRST_EPOCH, type NewRun } from "../store/create_run.ts";
import { type CutAt, cutMessages } from "../store/cut_messages.ts";
import type { Database } from "../store/database.ts";
import { readHistory, supersedeLastAnswer } from "../store/messages.ts";
import { readSessionBelonging } from "../store/ownership.ts";
import { releaseLease, type RunKey } from "../store/runs.ts";
import { createSession, type NewSession, readSession } from "../store/sessions.ts";
import type { Span } from "../telemetry/tracing.ts";
import { assertRunGiven } from "./assert_given.ts";
import { driveRun } from "./drive_run.ts";
import type { LiveRun } from "./live_run.ts";
import { withPreflight } from "./preflight.ts";
import { SEQ_BLOCK } from "./recorder.ts";
import type { RunnableAgent, StartOptions } from "./runnable_agent.ts";

/** Characters of a message that are hashed between two turns of the event loop. */
const STRETCH_CHARACTERS = 1024 * 1024;

/** A wish for a run. */
export interface StartRun {
  principal: Principal;
  requestId: string;
  /** Of the request, null when it is not traced; left out where there is no request. */
  span?: Span | null;
  sessionId: string;
  /** What a session is made with that is not there yet: it is written behind every check, so that a refusal leaves none. */
  newSession?: Pick<NewSession, "externalId" | "title" | "metadata"> | undefined;
  agent: RunnableAgent;
  /** Null: the last user message is answered once more. */
  message: { clientId: string | null; parts: UIPart[] } | null;
  /**
   * The user message that `message` takes the place of, by its id or its client's: it and all that was said behind it leave
   * the conversation. `after` is the message that the client has before it, null for none.
   */
  cutAt?: { messageId: string; after: string | null } | undefined;
  /** What the request is known by, so that it may come twice. */
  idempotency?: NewRun["idempotency"];
  /** What it may use up; of this and what its agent says the smaller counts. */
  budget?: RunBudget | undefined;
  /** What its id is to be; left out, a new one. */
  runId?: string;
  /** The call of another run that asks for it. */
  parent?: NewRun["parent"];
  /** Where words of others may come from that stand in its history: they count for an agent that can have read them. */
  outside?: readonly string[];
  /** What its answer is held to; null or left out: text. */
  format?: AnswerFormat | null;
  /** When a person has to agree to a plan first, beside what its agent says. */
  preflight?: PreflightWhen | undefined;
  /** Credentials for its calls of single MCP servers; null or left out for none. */
  handed?: HandedCredentials | null;
}

/** A run that has been started, now or by an earlier request with the same message id or key. */
export interface StartedRun {
  runId: string;
  messageId: string;
  /** The one that was asked for, or another one that was made meanwhile with the same external id. */
  sessionId: string;
  /** The run when it was started now; else it is followed like any other. */
  live: LiveRun | null;
}

/**
 * Writes the message and begins its run. Throws `invalid_api_key` when the key has ended meanwhile, `permission_denied` for an agent that the key may not run, `not_found` for an unknown session, `conflict` when a run of the
 * session goes on, `invalid_request` for what `assertRunGiven` refuses and a schema that answers cannot be held to, `idempotency_mismatch` when the message id or the key came before with other content.
 */
export async function startRun(wish: StartRun, options: StartOptions): Promise<StartedRun> {
  const { db, ids } = options;
  const { principal } = wish;
  const { tenantId } = principal;
  assertRunGiven(wish);
  assertKeyHolds(options, principal.keyId);
  assertAgent(options.policyOf?.(principal.keyId) ?? {}, wish.agent.settings.name);
  const handed = wish.handed ?? null;
  const budget = wish.budget ?? null;
  const format = wish.format ?? null;
  const answer = format === null ? null : createStructuredAnswer(format.schema);
  const preflight = wish.preflight ?? null;
  const prepared = await wish.agent.prepare?.(principal, handed) ?? wish.agent;
  const agent = withPreflight(prepared, { wish: preflight, db });
  const runId = wish.runId ?? ids.next("run");
  const messageId = ids.next("msg");
  const userMessageId = ids.next("msg");
  const parts = wish.message?.parts ?? [];
  const hash = await hashOf(parts);
  const leasedMs = options.clock.monotonic();
  let { sessionId } = wish;
  let created: CreatedRun;
  let history: UIMessage[] = [];
  try {
    if (wish.newSession !== undefined) sessionId = await makeSession(wish, db);
    else if (wish.cutAt !== undefined) {
      await cut({ ...wish.cutAt, tenantId, sessionId, hash, keyId: principal.keyId }, db);
    }
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
      budget,
      format,
      preflight,
      ...wish.parent === undefined ? {} : { parent: wish.parent },
      outside: agent.tools.some(hearsOthers) ? wish.outside ?? [] : [],
      idempotency: wish.idempotency ?? null,
      userMessage: wish.message === null ? null : {
        messageId: userMessageId,
        clientId: wish.message.clientId ?? userMessageId,
        hash,
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
      throw busyWith(created.runId);
    case "duplicate":
      return { runId: created.runId, messageId: created.messageId, sessionId, live: null };
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
  const live = driveRun(
    { record, agent, budget, answer, principal, requestId, history, handed, ...asked },
    options,
  );
  return { runId, messageId, sessionId, live };
}

function busyWith(runId: string): HubError {
  return new HubError(
    "conflict",
    `The session is busy with ${runId}: follow it at /v1/runs/${runId}/stream, or stop it first`,
    { clientCode: "run_active", details: { activeRun: runId } },
  );
}

/** Makes room for a text that takes the place of an earlier one. */
async function cut({ keyId, ...at }: CutAt & { keyId: string }, db: Database): Promise<void> {
  for (;;) {
    const found = await cutMessages(db, at);
    if (found === "unknown") throw noPlace(at.messageId);
    if (found !== "busy") return;
    const { tenantId, sessionId } = at;
    const whole = { tenantId, sessionId, keyId, sessions: "all" as const };
    const active = (await readSession(db, whole))?.activeRun;
    if (active) throw busyWith(active.runId);
  }
}

function noPlace(messageId: string): HubError {
  return new HubError(
    "invalid_request",
    `There is no message ${messageId} that another text could take the place of: load the conversation again`,
    { param: "messageId" },
  );
}

/** A message may have waited for its turn while its key ended: it is not stored any more. */
function assertKeyHolds({ holdKey }: StartOptions, keyId: string): void {
  const release = holdKey?.(keyId, (end) => {
    throw new HubError("invalid_api_key", `The run was not begun: ${describeKeyEnd(end)}`);
  });
  release?.();
}

/** One that a run of another session asks for belongs to that session's owner, whichever key began the run. */
async function makeSession(
  { principal, sessionId, agent, newSession, parent, cutAt }: StartRun,
  db: Database,
): Promise<string> {
  if (cutAt && cutAt.after !== null) throw noPlace(cutAt.messageId);
  const { tenantId, keyId } = principal;
  const above = parent === undefined
    ? null
    : await readSessionBelonging(db, { tenantId, runId: parent.runId });
  const { owner, keyId: ownKey } = above ?? belongingOf(accessOf(principal));
  const owned = { tenantId, owner, keyId: ownKey ?? keyId };
  const { name } = agent.settings;
  return (await createSession(db, { ...newSession, ...owned, sessionId, agent: name })).id;
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

/** Whether results of a tool may hold words of others: what another agent answers may, by what it has read. */
function hearsOthers({ name, outside }: Tool): boolean {
  return outside !== undefined || name.startsWith(`${SUB_AGENTS}.`);
}

/** Of the parts as canonical JSON. */
async function hashOf(parts: readonly UIPart[]): Promise<string> {
  const hash = createHash("sha256").update("[");
  const stretch = new WorkStretch(STRETCH_CHARACTERS);
  for (const [at, part] of parts.entries()) {
    const text = canonicalJson(part as unknown as Json);
    hash.update(at === 0 ? text : `,${text}`);
    await stretch.spend(text.length);
  }
  return hash.update("]").digest("hex");
}
