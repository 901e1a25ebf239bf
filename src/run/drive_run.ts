import type { HandedCredentials } from "../core/handed_credentials.ts";
import { describeKeyEnd } from "../core/key_end.ts";
import { type RunBudget, smallerBudget } from "../core/run_budget.ts";
import type { Principal } from "../core/tool.ts";
import type { UIMessage } from "../core/ui_message.ts";
import { runAgent } from "../inference/agent_loop.ts";
import type { RunResume } from "../inference/agent_run.ts";
import { parseArguments } from "../operations/parse_arguments.ts";
import type { StructuredAnswer } from "../operations/structured_answer.ts";
import { createWireNames } from "../operations/wire_names.ts";
import type { Span } from "../telemetry/tracing.ts";
import type { BeginLoop, LiveRun } from "./live_run.ts";
import { keepModelFiles } from "./model_files.ts";
import { createForesight, createPermit } from "./permit.ts";
import { permitPlanned } from "./preflight.ts";
import type { RecordedRun } from "./recorder.ts";
import { endRunSpan, startRunSpan } from "./run_span.ts";
import type { RunnableAgent, StartOptions } from "./runnable_agent.ts";
import { sessionFiles } from "./session_files.ts";
import { untilAnswered } from "./until_answered.ts";

/** A run that is ours, to be driven from its beginning or from where `resume` says. */
export interface DrivenRun {
  record: RecordedRun;
  agent: RunnableAgent;
  principal: Principal;
  requestId: string;
  history: readonly UIMessage[];
  resume?: RunResume;
  /** As it was asked for. */
  budget?: RunBudget | null;
  /** What its answer is held to. */
  answer?: StructuredAnswer | null;
  /** How old it is, in milliseconds. */
  ageMs?: number;
  /** As in `StartRun`. */
  parent?: Span | null;
  handed?: HandedCredentials | null;
  /** How many texts were said to it before. */
  steered?: number;
  /** Somebody has asked to stop it. */
  stopRequested?: boolean;
  /** Why it is stopped at once; left out where it is not. */
  stopReason?: string | undefined;
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
  const { tenantId } = principal;
  const budget = smallerBudget(agent.settings.budget, driven.budget);
  const { ageMs = 0, answer = null } = driven;
  const { window } = agent;
  const { costOf } = agent;
  const wireNames = createWireNames(agent.tools.map((tool) => tool.name));
  const { clock, observeContext } = options;
  const calls = { principal, requestId, sessionId, runId };
  const questions = agent.settings.questions === false ? undefined : options.questions?.of(record);
  const log = options.log.with({ runId, sessionId, requestId });
  const span = startRunSpan(driven, options);
  const judged = {
    db: options.db,
    ...{ tenantId: principal.tenantId, keyId: principal.keyId, sessionId, runId, log },
    heedsTaint: agent.ignoresTaint !== true,
    agent: agent.settings.name,
  };
  const foresee = createForesight(judged);
  const permit = permitPlanned(
    createPermit(judged),
    {
      rule: agent.settings.preflight,
      tools: agent.tools,
      fullName: (wireName) => wireNames.fromWire(wireName) ?? wireName,
    },
  );
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
      ...(agent.offer === undefined ? {} : { offer: agent.offer }),
      instructions: agent.instructions ?? [],
      principal,
      callModel: keepModelFiles(
        agent.callModel({ ...calls, epoch: record.epoch, span }),
        {
          files: sessionFiles(options.db, { tenantId, sessionId }),
          log,
          events: resume?.events ?? [],
        },
      ),
      ...(budget === null ? {} : { budget, ageMs }),
      ...(answer === null ? {} : { answer }),
      ...(window === undefined ? {} : { window }),
      ...(costOf === undefined ? {} : { costOf }),
      ...(observeContext === undefined ? {} : { observeContext }),
      executeTool: options.executeTool,
      span,
      parseArguments,
      wireNames,
      permit: (request) => untilAnswered(() => permit(request), { clock, signal }),
      foresee: (tools) => untilAnswered(() => foresee(tools), { clock, signal }),
      approvalTimeoutMs: options.approvalTimeoutMs,
      ...(questions === undefined ? {} : { questions }),
      mustLeave: () => options.live.isLeaving,
      signal,
      steering,
      clock,
      ids: options.ids,
      random: options.random,
      log,
    });
  const events = resume?.events ?? [];
  if (handed !== null) options.handed?.hold(runId, handed);
  const live = options.live.drive(record, begin, {
    ...{ log, events, steered, stopRequested },
    stopReason: driven.stopReason,
  });
  // The first step has not begun: a key that has ended meanwhile begins none.
  const release = options.holdKey?.(principal.keyId, (end) => {
    log.warn("A run is stopped with its API key", { end });
    live.abort.abort(describeKeyEnd(end));
  });
  void live.done.then(() => {
    release?.();
    if (handed !== null) options.handed?.leave(live, handed);
    return agent.release?.();
  });
  if (span !== null) endRunSpan(span, live, clock);
  return live;
}
