import { HubError } from "../core/error.ts";
import { shownHash } from "../inference/approvals.ts";
import {
  answerApproval,
  type ApprovalAnswer,
  type ApprovalKey,
  listDueApprovals,
  readApproval,
  type StoredApproval,
} from "../store/approvals.ts";
import type { Database } from "../store/database.ts";

/** A person's answer. With `hash` it holds only for the question that was shown so. */
export interface PersonsAnswer extends ApprovalKey {
  approved: boolean;
  reason: string | null;
  decidedBy: string | null;
  hash: string | null;
}

/**
 * Answers a question, wherever its run is; of all answers one counts. Gives the question as it is then. Throws `not_found`,
 * and `conflict` with the state as its code when it was answered before, has expired, ended with its run, or is another one than was
 * shown.
 */
export async function answerQuestion(
  db: Database,
  { approved, reason, decidedBy, hash, ...key }: PersonsAnswer,
): Promise<StoredApproval> {
  const { approvalId, runId } = key;
  const before = await readApproval(db, key);
  if (before === null) {
    throw new HubError("not_found", `The run ${runId} has no approval ${approvalId}`);
  }
  if (hash !== null && hash !== shownHash(before)) {
    throw new HubError("conflict", `${approvalId} asks for something else than what was shown`, {
      clientCode: "approval_changed",
    });
  }
  const answer: ApprovalAnswer = { state: approved ? "approved" : "denied", reason, decidedBy };
  const isAnswered = await answerApproval(db, key, answer);
  const after = await readApproval(db, key) ?? before;
  if (isAnswered) return after;
  throw new HubError(
    "conflict",
    `${approvalId} cannot be answered any more: it is ${after.state}`,
    {
      clientCode: `approval_${after.state}`,
    },
  );
}

/** Lets the questions expire whose time is over; gives how many did so here. */
export async function expireApprovals(db: Database): Promise<number> {
  let expired = 0;
  for (const key of await listDueApprovals(db)) {
    if (await answerApproval(db, key, { state: "expired" })) expired++;
  }
  return expired;
}
