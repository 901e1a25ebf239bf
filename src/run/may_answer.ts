import type { Remember } from "../core/approval.ts";
import { HubError } from "../core/error.ts";
import { type Access, mayAnswer, mayRemember } from "../core/ownership.ts";
import type { Database } from "../store/database.ts";
import { readRunBelonging } from "../store/ownership.ts";

/**
 * Refuses an answer to an approval, plan or question of a run: `not_found` for a run that the caller does not reach,
 * `permission_denied` for one that its policy `answers` leaves to others, or for an approval that would be remembered in
 * later runs of a key of another owner.
 */
export async function assertMayAnswer(
  db: Database,
  access: Access,
  { runId, remember = null }: { runId: string; remember?: Remember | null },
): Promise<void> {
  const belonging = await readRunBelonging(db, access, runId);
  if (belonging === null) throw new HubError("not_found", `There is no run ${runId}`);
  if (!mayAnswer(access, belonging)) {
    throw new HubError(
      "permission_denied",
      `The policy of this API key has answers: ${access.answers}, which leaves ${runId} to others`,
      { clientCode: "may_not_answer" },
    );
  }
  if (remember === "always" && !mayRemember(access, belonging)) {
    throw new HubError(
      "permission_denied",
      `${runId} is a run of another owner's key, whose later runs this API key cannot approve: wanted remember once or session`,
      { param: "remember" },
    );
  }
}
