/**
 * What a key reaches of its tenant's sessions, with all that belongs to them (runs, messages, files, approvals, questions),
 * and of its stored responses. `own`: what this key made; `owner`: what the keys of its owner made; `all`: everything.
 */
export type SessionReach = "own" | "owner" | "all";

/** Whose runs a key may answer for, of those that it reaches: those it began, those of its owner, or none. */
export type AnswerReach = "own" | "owner" | "none";

/** A caller, as far as it decides what the caller reaches. A `Principal` is one, but for the role: see `accessOf`. */
export interface Access {
  tenantId: string;
  keyId: string;
  /** Keys with the same owner share; a key without one stands alone. */
  owner?: string | null;
  /** `owner` when left out. */
  sessions?: SessionReach;
  /** All that it reaches when left out. */
  answers?: AnswerReach;
}

/** Whose a stored session or response is. A row without an owner belongs to its key alone; one without either to no key. */
export interface Belonging {
  keyId: string | null;
  owner: string | null;
}

/** Whose a run is: its session's, and the key on whose account it runs. */
export interface RunBelonging {
  session: Belonging;
  /** Null for runs from before it was recorded. */
  runKey: Belonging;
}

/** What a principal reaches: admin keys reach everything of their tenant. */
export function accessOf(
  { tenantId, keyId, owner = null, sessions = "owner", answers, role }:
    & Access
    & { role: "user" | "admin" },
): Access {
  return {
    ...{ tenantId, keyId, owner, sessions: role === "admin" ? "all" : sessions },
    ...answers === undefined ? {} : { answers },
  };
}

/**
 * Whose the things are that a caller makes. With `own` they belong to this key alone, so that the other keys of its owner do
 * not find them either.
 */
export function belongingOf({ keyId, owner = null, sessions = "owner" }: Access): Belonging {
  return { keyId, owner: sessions === "own" ? null : owner };
}

/** What a caller reaches by names that clients choose, when it goes on with what it finds: what it would make itself. */
export function ownReach(access: Access): Access {
  return access.sessions === "all" ? { ...access, sessions: "owner" } : access;
}

/** Whether a caller reaches a stored thing of its tenant. `store/ownership.ts` has the same rule in SQL. */
export function reaches(
  { keyId, owner = null, sessions = "owner" }: Access,
  of: Belonging,
): boolean {
  if (sessions === "all") return true;
  if (sessions === "own") return of.keyId === keyId;
  return of.owner === null ? of.keyId === keyId : of.owner === owner;
}

/** Whether a caller that reaches a run may answer its approvals, plans and questions. */
export function mayAnswer(access: Access, { session, runKey }: RunBelonging): boolean {
  switch (access.answers) {
    case "none":
      return false;
    case "own":
      return runKey.keyId === access.keyId;
    case "owner":
      return reaches({ ...access, sessions: "owner" }, session);
    default:
      return true;
  }
}

/**
 * Whether a caller's approval may be remembered beyond the session: it then holds for later runs of the run's key, which
 * must be one of the caller's owner.
 */
export function mayRemember(access: Access, { runKey }: RunBelonging): boolean {
  if (access.sessions === "all") return true;
  if (runKey.keyId === access.keyId) return true;
  return access.sessions !== "own" && runKey.owner !== null && runKey.owner === access.owner;
}
