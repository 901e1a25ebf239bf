import type { ApprovalTier, Remember } from "../core/approval.ts";
import { HubError } from "../core/error.ts";
import type { IdSource } from "../core/id.ts";
import type { Access } from "../core/ownership.ts";
import type { AgreedStep } from "../core/preflight.ts";
import { shownHash } from "../inference/approvals.ts";
import {
  answerApproval,
  type ApprovalKey,
  listDueApprovals,
  readApproval,
  type StoredApproval,
} from "../store/approvals.ts";
import type { Database } from "../store/database.ts";
import { assertAnswerGiven } from "./assert_given.ts";
import { assertMayAnswer } from "./may_answer.ts";

/** A person's answer. With `hash` it holds only for the question that was shown so. */
export interface PersonsAnswer extends ApprovalKey {
  approved: boolean;
  reason: string | null;
  /** Who answers; null: the command line, which may answer all. */
  by: Access | null;
  hash: string | null;
  /** How far an approval reaches; null for as far as its question suggests. */
  remember: Remember | null;
  /** How long it is remembered; null for as long as nobody takes it back. */
  rememberSeconds: number | null;
  /** For what it grants. */
  ids: IdSource;
  /** The steps of a plan as they were agreed on; left out where nobody has changed them. */
  steps?: readonly AgreedStep[];
}

/**
 * Answers a question, wherever its run is; of all answers one counts. Gives the question as it is then. Throws as `assertMayAnswer` does, `not_found`,
 * `invalid_request` for a reason that is too long and an answer that may not be remembered so, and `conflict` with the state as its code when it was
 * answered before, has expired, ended with its run, or is another one than was shown.
 */
export async function answerQuestion(
  db: Database,
  { approved, reason, by, hash, remember, rememberSeconds, ids, steps, ...key }: PersonsAnswer,
): Promise<StoredApproval> {
  const { approvalId, runId } = key;
  assertAnswerGiven({ reason, rememberSeconds });
  if (by !== null) await assertMayAnswer(db, by, { runId, remember });
  const before = await readApproval(db, key);
  if (before === null) {
    throw new HubError("not_found", `The run ${runId} has no approval ${approvalId}`);
  }
  if (hash !== null && hash !== shownHash(before)) {
    throw new HubError("conflict", `${approvalId} asks for something else than what was shown`, {
      clientCode: "approval_changed",
    });
  }
  const reach = reachOf(before.tier, { approved, remember, rememberSeconds });
  const grant = reach === "once"
    ? null
    : { grantId: ids.next("grt"), remember: reach, seconds: rememberSeconds };
  const state = approved ? "approved" : "denied";
  const isAnswered = await answerApproval(db, key, {
    ...{ state, reason, decidedBy: by?.keyId ?? null, grant },
    ...(steps === undefined ? {} : { answer: steps.map((step) => ({ ...step })) }),
  });
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

/** How far an answer to such a question reaches. Throws `invalid_request` for one that may not reach so far. */
function reachOf(
  tier: ApprovalTier,
  { approved, remember, rememberSeconds }: Pick<
    PersonsAnswer,
    "approved" | "remember" | "rememberSeconds"
  >,
): Remember {
  const reach = remember ?? (approved && tier === "session" ? "session" : "once");
  const refuse = (param: string, why: string) =>
    new HubError("invalid_request", `Tried to answer with ${param}: ${why}`, { param });
  if (reach === "once") {
    if (rememberSeconds === null) return reach;
    throw refuse("rememberSeconds", "this answer is not remembered, wanted remember too");
  }
  if (!approved) throw refuse("remember", "only an approval is remembered");
  if (tier === "always") {
    throw refuse("remember", "a person is asked about this tool each time, wanted once");
  }
  return reach;
}

/** Lets the questions expire whose time is over; gives how many did so here. */
export async function expireApprovals(db: Database): Promise<number> {
  let expired = 0;
  for (const key of await listDueApprovals(db)) {
    if (await answerApproval(db, key, { state: "expired" })) expired++;
  }
  return expired;
}
