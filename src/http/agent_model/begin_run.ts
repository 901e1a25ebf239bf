import type { IdSource } from "../../core/id.ts";
import { accessOf, belongingOf } from "../../core/ownership.ts";
import type { UIMessage } from "../../core/ui_message.ts";
import { assertTextFits } from "../../run/assert_given.ts";
import { type StartedRun, type StartRun, startRun } from "../../run/start_run.ts";
import type { StartOptions } from "../../run/runnable_agent.ts";
import { findKeyedSession } from "../../store/create_run.ts";
import { isUniqueViolation } from "../../store/database.ts";
import { addEarlierMessages } from "../../store/earlier_messages.ts";
import { createSession, deleteSession } from "../../store/sessions.ts";

/** Where answers come from that a request brings: runs that it does not name, which may have read words of others. */
const EARLIER_ANSWERS = "earlier answers";

/** What beginning one needs. */
export interface BeginRunOptions {
  start: StartOptions;
  ids: IdSource;
}

/**
 * Begins a run in a session of its own, behind what was said before. A request that comes again under its key gets the
 * run that it began. Throws as `startRun` does.
 */
export async function beginRun(
  wish: Omit<StartRun, "sessionId" | "newSession"> & { earlier: readonly UIMessage[] },
  options: BeginRunOptions,
): Promise<StartedRun> {
  const { start } = options;
  const { principal: { tenantId }, idempotency = null } = wish;
  const outside = wish.earlier.some(({ role }) => role === "assistant") ? [EARLIER_ANSWERS] : [];
  for (const { parts } of wish.earlier) assertTextFits(parts);
  const startIn = (sessionId: string) => startRun({ ...wish, outside, sessionId }, start);
  const findKnown = () =>
    idempotency === null ? null : findKeyedSession(start.db, { ...idempotency, tenantId });
  const known = await findKnown();
  if (known !== null) return await startIn(known);
  const sessionId = await openSession(wish, options);
  try {
    await addEarlierMessages(start.db, { tenantId, sessionId, messages: wish.earlier });
    return await startIn(sessionId);
  } catch (error) {
    await deleteSession(start.db, { tenantId, sessionId }).catch((problem: unknown) =>
      start.log.warn("The session of a run that was not begun stays", { sessionId, error: problem })
    );
    // The same request has begun its run beside this one.
    const other = isUniqueViolation(error) ? await findKnown() : null;
    if (other === null) throw error;
    return await startIn(other);
  }
}

async function openSession(
  { principal, agent }: Pick<StartRun, "principal" | "agent">,
  { start, ids }: BeginRunOptions,
): Promise<string> {
  const { tenantId, keyId } = principal;
  const session = await createSession(start.db, {
    ...{ ...belongingOf(accessOf(principal)), tenantId, keyId },
    sessionId: ids.next("ses"),
    agent: agent.settings.name,
  });
  return session.id;
}
