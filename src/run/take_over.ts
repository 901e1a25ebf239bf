import { HubError, toHubError } from "../core/error.ts";
import { HandedCredentials } from "../core/handed_credentials.ts";
import { describeKeyEnd } from "../core/key_end.ts";
import type { Principal } from "../core/tool.ts";
import type { Decision } from "../inference/agent_run.ts";
import { shownHash } from "../inference/approvals.ts";
import type { ToolCallRecord } from "../inference/loop_batch.ts";
import { createStructuredAnswer, type StructuredAnswer } from "../operations/structured_answer.ts";
import { listRunApprovals } from "../store/approvals.ts";
import type { Database } from "../store/database.ts";
import { readHistory, supersedeLastAnswer } from "../store/messages.ts";
import { claimAbandoned, type ClaimedRun } from "../store/claim_runs.ts";
import { readModelCalls } from "../store/model_calls.ts";
import { readKeyEnd } from "../store/ended_keys.ts";
import { readRun, releaseLease, type RunKey } from "../store/runs.ts";
import { readRunUsage } from "../store/run_usage.ts";
import { readSpentBudget } from "../store/run_budgets.ts";
import { readSessionKey } from "../store/sessions.ts";
import { readOpenCalls } from "../store/tool_calls.ts";
import type { UsageRow } from "../store/usage_rows.ts";
import { endAbandoned } from "./end_abandoned.ts";
import { orphanedRows, reservedUsage } from "./orphaned_call.ts";
import { lostCalls, withCostBeside } from "./lost_calls.ts";
import { driveRun } from "./drive_run.ts";
import type { RunnableAgent, StartOptions } from "./runnable_agent.ts";
import { withPreflight } from "./preflight.ts";
import { levelOfLoss } from "./level_of_loss.ts";
import { readLog } from "./stored_log.ts";

/** What taking runs over needs. */
export interface TakeOverOptions {
  start: StartOptions;
  findAgent(name: string, model?: string): RunnableAgent;
  /** Books a model call whose answer went with its replica. */
  recordUsage(row: UsageRow): void;
  /** Whoever has a key, as far as is known; without it a key has no name, no role and no tags. */
  findKey?(key: { tenantId: string; keyId: string }): Promise<Principal | null>;
  /** Called for each run that was ended here. */
  onCommitted(runId: string): void;
  /** Called for runs that were claimed and are left again. */
  onLeft(): void;
}

/** Runs claimed at a time: the other replicas get some too. */
const CLAIMS = 20;

/**
 * Claims runs whose replica died or let them go, each with a new epoch, so that its former owner is fenced, and goes
 * on with them from their logs, until there are no more or `mustStop` says so. Gives the number of runs claimed.
 */
export async function takeOverAbandoned(
  options: TakeOverOptions,
  mustStop: () => boolean = () => false,
): Promise<number> {
  const { db, owner, leaseMs } = options.start;
  for (let count = 0;;) {
    const leasedMs = options.start.clock.monotonic();
    const claimed = await claimAbandoned(db, { owner, leaseMs, limit: CLAIMS });
    count += claimed.length;
    await Promise.all(claimed.map((run) => takeOrLeave({ ...run, leasedMs }, options, mustStop)));
    if (claimed.length < CLAIMS || mustStop()) return count;
  }
}

/** A claim, and when it was asked for. */
type TimedClaim = ClaimedRun & { leasedMs: number };

async function takeOrLeave(
  run: TimedClaim,
  options: TakeOverOptions,
  mustStop: () => boolean,
): Promise<void> {
  const { db, log } = options.start;
  try {
    const taken = await takeOver(run, options);
    if (taken === null) return;
    if (!mustStop()) return taken.begin();
    await taken.release();
    await releaseLease(db, run);
    options.onLeft();
  } catch (error) {
    // Its lease runs out again, and the next look tries once more, until it counts as poisoned.
    const failure = toHubError(error);
    log[levelOfLoss(failure)]("A run could not be taken over", {
      runId: run.runId,
      error: failure,
    });
  }
}

/** A run that may go on here: one of the two is called. */
interface Taken {
  begin(): void;
  release(): Promise<void>;
}

/** Gives what goes on with the run; null when it is over, or another's. */
async function takeOver(
  claim: TimedClaim,
  options: TakeOverOptions,
): Promise<Taken | null> {
  const { start, findAgent } = options;
  const { db, live, leaseMs, log } = start;
  const key = { tenantId: claim.tenantId, runId: claim.runId };
  await live.lose(key.runId);
  const run = await readRun(db, key);
  // A replica that was frozen since its claim finds another owner: its epoch must never be taken for this one's.
  if (run === null || run.epoch !== claim.epoch) return null;
  const begun = await readModelCalls(db, claim);
  const orphaned = await orphanedRows(db, key, begun);
  const rows = await readRunUsage(db, key);
  for (const row of orphaned) options.recordUsage(row);
  const end = async (code: string, errorText: string) => {
    const why = { code, errorText };
    await endAbandoned(db, claim, { leaseMs, log, why, booked: orphaned });
    options.onCommitted(key.runId);
    log.warn("Ended a run whose replica was lost", { ...key, code });
    return null;
  };
  if (claim.poisoned) {
    return await end("interrupted", "The run was interrupted too often without finishing a step");
  }
  let agent: RunnableAgent;
  let answer: StructuredAnswer | null;
  try {
    answer = run.format === null ? null : createStructuredAnswer(run.format.schema);
    agent = findAgent(run.agent);
    if (agent.model !== run.model) agent = findAgent(run.agent, run.model);
  } catch (error) {
    return await end("interrupted", `The run cannot go on here: ${toHubError(error).message}`);
  }
  if (run.lastSeq === 0) {
    // Its first owner may not have come to it. Of a run that answers a new message there is nothing to supersede.
    const { sessionId, messageId: newMessageId } = run;
    await supersedeLastAnswer(db, { tenantId: key.tenantId, sessionId, newMessageId });
  }
  // Before the agent is prepared, which may connect to servers that somebody has to let go.
  const [logged, openCalls, decisions, history, sessionKey, spent] = await Promise.all([
    readLog(db, key),
    readOpenCalls(db, key),
    readDecisions(db, key),
    readHistory(db, { tenantId: key.tenantId, sessionId: run.sessionId }),
    readSessionKey(db, { tenantId: key.tenantId, sessionId: run.sessionId }),
    readSpentBudget(db, key),
  ]);
  if (sessionKey === null) throw new HubError("not_found", `The session of ${run.runId} is gone`);
  const events = logged.map(({ event }) => event);
  const owner = { tenantId: key.tenantId, keyId: run.keyId ?? sessionKey };
  // A run that waited for days may be claimed by a replica that has not heard yet.
  const keyEnd = await readKeyEnd(db, owner);
  const principal = await options.findKey?.(owner) ?? { ...owner, keyName: "", role: "user" };
  const handed = start.handed?.get(key.runId) ??
    (run.handedServers.length === 0 ? null : new HandedCredentials(new Map(), run.handedServers));
  try {
    // One that is stopped at once needs no servers.
    const prepared = keyEnd === null ? await agent.prepare?.(principal, handed) ?? agent : agent;
    agent = withPreflight(prepared, { wish: run.preflight, db });
  } catch (error) {
    return await end("interrupted", `The run cannot go on here: ${toHubError(error).message}`);
  }
  const requestId = run.requestId ?? start.ids.next("req");
  const step = openStepOf(events);
  // Whoever let the run go has booked the call that it cut.
  const release = async () => await agent.release?.();
  const reserved = step === null || !claim.lost ? null : await reservedUsage(
    run,
    { principal, requestId, step, events, history, begun },
    { db, agent, policy: start.policyOf?.(owner.keyId) ?? {} },
  ).catch(async (error: unknown) => {
    await release();
    throw error;
  });
  const record = {
    ...key,
    sessionId: run.sessionId,
    messageId: run.messageId,
    agent: run.agent,
    epoch: claim.epoch,
    leasedMs: claim.leasedMs,
    // Numbers up to the reserved one may have been shown under deltas that were never committed.
    lastSeq: step === null ? run.lastSeq : run.reservedTo,
    committedSeq: run.lastSeq,
    reservedTo: run.reservedTo,
  };
  const { steered, stopRequested } = run;
  const { budget = null, ageMs = 0 } = spent ?? {};
  const costMicros = run.costMicros ?? withCostBeside(spent?.costMicros ?? null, events);
  const booked = reserved === null ? orphaned : [...orphaned, reserved];
  const resume = {
    events,
    openCalls: openCalls as ToolCallRecord[],
    decisions,
    costMicros,
    lost: lostCalls(rows, { booked, events, costMicros }),
    estimated: [...rows.values()].some(({ use }) => use.estimated),
    ...step === null ? {} : { shownTo: run.reservedTo },
  };
  const begin = () => {
    if (reserved !== null) options.recordUsage(reserved);
    const facts = { ...key, epoch: claim.epoch, step, openCalls: openCalls.length };
    if (decisions.length > 0) log.info("A run goes on that has waited for people", facts);
    else log.warn("Took a run over", facts);
    const driven = {
      record,
      agent,
      principal,
      requestId,
      history,
      resume,
      budget,
      answer,
      ageMs,
      steered,
      handed,
    };
    const stopReason = keyEnd === null ? undefined : describeKeyEnd(keyEnd);
    driveRun({ ...driven, stopRequested, stopReason }, start);
  };
  return { begin, release };
}

/** The answers to the run's questions, as the loop reads them. What ended with the run needs none. */
async function readDecisions(db: Database, key: RunKey): Promise<Decision[]> {
  return (await listRunApprovals(db, key)).flatMap((approval): Decision[] => {
    const { approvalId, state, decidedAt, ...said } = approval;
    // Nobody can answer any more, and that it was so is still to be written.
    if (decidedAt === null || state === "pending" || state === "cancelled") return [];
    const { reason, remember, preview, shownState } = said;
    const hash = shownHash(approval);
    return [{ approvalId, outcome: state, hash, reason, remember, preview, shownState }];
  });
}

function openStepOf(events: readonly { type: string; step?: number }[]): number | null {
  const last = events.findLast(({ type }) => type === "step-start" || type === "step-finish");
  return last?.type === "step-start" ? last.step ?? null : null;
}
