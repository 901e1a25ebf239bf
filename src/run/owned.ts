import { HubError } from "../core/error.ts";
import { isId, parseId } from "../core/id.ts";
import { type Access, ownReach } from "../core/ownership.ts";
import type { Database } from "../store/database.ts";
import { readRunBelonging } from "../store/ownership.ts";
import type { RunKey } from "../store/runs.ts";
import {
  type FoundByExternalId,
  readSession,
  readSessionByExternalId,
  type StoredSession,
} from "../store/sessions.ts";

/**
 * The session of this id, or of this external id written `ext:…`. Throws `not_found` for one that does not exist or that
 * the caller does not reach, without telling which, and `conflict` for an external id that several other owners use.
 */
export async function findSession(
  db: Database,
  access: Access,
  id: string,
): Promise<StoredSession> {
  const session = isId("ses", id)
    ? await readSession(db, { ...access, sessionId: id })
    : id.startsWith("ext:")
    ? theOne(await readSessionByExternalId(db, { ...access, externalId: id.slice(4) }))
    : null;
  if (session === null) throw new HubError("not_found", `There is no session ${id.slice(0, 80)}`);
  return session;
}

/** The session that a client reads by a name of its own; null when the caller reaches none. Throws `conflict` as `findSession` does. */
export async function findNamedSession(
  db: Database,
  access: Access,
  externalId: string,
): Promise<StoredSession | null> {
  return theOne(await readSessionByExternalId(db, { ...access, externalId }));
}

/**
 * The session that a client goes on with, or creates, by a name of its own; null when its owner has none. One of another
 * owner is never meant, whatever the caller reaches: its owner may have created it to read what comes.
 */
export function findOwnNamedSession(
  db: Database,
  access: Access,
  externalId: string,
): Promise<StoredSession | null> {
  return findNamedSession(db, ownReach(access), externalId);
}

/** The run of this id. Throws `not_found` for one that does not exist or that the caller does not reach, without telling which. */
export async function findRun(db: Database, access: Access, id: string): Promise<RunKey> {
  const runId = parseId("run", id);
  if (await readRunBelonging(db, access, runId) === null) {
    throw new HubError("not_found", `There is no run ${runId}`);
  }
  return { tenantId: access.tenantId, runId };
}

function theOne(found: FoundByExternalId | null): StoredSession | null {
  if (found === null) return null;
  if (!found.isAmbiguous) return found.session;
  throw new HubError(
    "conflict",
    "Several owners have a session with this external id: ask for the one that you mean by its id",
    { clientCode: "external_id_ambiguous" },
  );
}
