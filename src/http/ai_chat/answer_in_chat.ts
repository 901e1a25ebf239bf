import { HubError } from "../../core/error.ts";
import { isId } from "../../core/id.ts";
import { canonicalJson, type Json } from "../../core/json.ts";
import { accessOf } from "../../core/ownership.ts";
import { shownHash } from "../../inference/approvals.ts";
import { answerQuestion } from "../../run/approvals.ts";
import { assertMayAnswer } from "../../run/may_answer.ts";
import { listRunApprovals, readApproval, type StoredApproval } from "../../store/approvals.ts";
import type { Database } from "../../store/database.ts";
import { readMessage } from "../../store/messages.ts";
import { readRun, type RunKey, type StoredRun } from "../../store/runs.ts";
import type { StoredSession } from "../../store/sessions.ts";
import { encodeAiSdkChunk } from "../../wire/ai_sdk_chunk.ts";
import type { AiSdkAnswer, AiSdkAnswers } from "../../wire/ai_sdk_request.ts";
import type { Call } from "../call.ts";
import type { HandedOptions } from "../handed.ts";
import { type ApprovalsOptions, handToWaiting } from "../routes/approvals.ts";
import { assertScopedAgent } from "./chat_scope.ts";

/** A run whose questions were answered in its chat. */
export interface AnsweredRun {
  runId: string;
  /** The number of the last event that the client has of its message. */
  has: number;
}

/**
 * Gives the answers that a chat's message brings to the run that has asked. Each is bound to what was stored with its
 * question (the call, its arguments, and what the tool said of itself): the run compares that before the call, and the
 * client's call is compared here. The same answers again change nothing. Throws `not_found`, and `conflict` for an answer
 * that does not count: to another call than was shown, or to a question that was answered otherwise or is over.
 */
export async function answerInChat(
  call: Pick<Call, "request" | "body" | "principal">,
  { chat, session, options }: {
    chat: AiSdkAnswers;
    session: StoredSession | null;
    options: HandedOptions & Pick<ApprovalsOptions, "start" | "onClaimable">;
  },
): Promise<AnsweredRun> {
  const { start: { db, ids } } = options;
  const by = accessOf(call.principal);
  const { tenantId } = by;
  const run = await findRun(db, { tenantId, chat, session });
  assertScopedAgent(call.principal, run.agent);
  const key = { tenantId, runId: run.runId };
  const stored = await listRunApprovals(db, key);
  const asked = chat.answers.map((answer) => ({
    answer,
    approval: find(stored, { answer, chat }),
  }));
  await assertMayAnswer(db, by, key);
  await handToWaiting(call, { key, options });
  for (const { answer, approval } of asked) {
    const { approved, reason } = answer;
    const { approvalId } = approval;
    try {
      if (approval.state !== "pending") throw over(approval);
      await answerQuestion(db, {
        ...key,
        approvalId,
        ...{ approved, reason, by, ids, hash: shownHash(approval) },
        remember: null,
        rememberSeconds: null,
      });
    } catch (error) {
      if (!await isAnsweredSo(db, { ...key, approvalId, approved })) throw error;
    }
  }
  options.onClaimable();
  const has = chat.waitingAt ?? run.lastSeq;
  return { runId: run.runId, has: Math.min(Math.max(1, has), run.lastSeq) };
}

async function findRun(
  db: Database,
  { tenantId, chat, session }: {
    tenantId: string;
    chat: AiSdkAnswers;
    session: StoredSession | null;
  },
): Promise<StoredRun> {
  const { messageId, chatId } = chat;
  const message = isId("msg", messageId) ? await readMessage(db, { tenantId, messageId }) : null;
  const runId = message?.runId ?? null;
  const run = runId === null ? null : await readRun(db, { tenantId, runId });
  if (run !== null && session !== null && run.sessionId === session.id) return run;
  throw new HubError("not_found", `The chat ${chatId} has no message ${messageId} that could ask`);
}

/** The question as it is stored. Throws when there is none, or when it is about something else than was shown. */
function find(
  stored: readonly StoredApproval[],
  { answer, chat }: { answer: AiSdkAnswer; chat: AiSdkAnswers },
): StoredApproval {
  const { approvalId, toolCallId, input } = answer;
  const approval = stored.find((one) => one.approvalId === approvalId);
  if (approval === undefined) {
    throw new HubError("not_found", `The message ${chat.messageId} has no approval ${approvalId}`);
  }
  const isShown = approval.toolCallId === toolCallId &&
    (input === undefined || canonicalJson(input) === canonicalJson(asSent(approval.input)));
  if (isShown) return approval;
  throw new HubError("conflict", `${approvalId} asks for something else than what was shown`, {
    clientCode: "approval_changed",
  });
}

/** The arguments as clients get them. */
function asSent(input: Json): Json {
  return JSON.parse(encodeAiSdkChunk({ type: "data-input", data: input })).data;
}

function over({ approvalId, state }: StoredApproval): HubError {
  return new HubError("conflict", `${approvalId} cannot be answered any more: it is ${state}`, {
    clientCode: `approval_${state}`,
  });
}

async function isAnsweredSo(
  db: Database,
  { approved, ...key }: RunKey & { approvalId: string; approved: boolean },
): Promise<boolean> {
  const now = await readApproval(db, key);
  return now?.state === (approved ? "approved" : "denied");
}
