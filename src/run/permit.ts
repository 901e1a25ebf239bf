import type { Log } from "../core/log.ts";
import type { Tool } from "../core/tool.ts";
import type { Permission, PermissionRequest } from "../inference/agent_run.ts";
import { definitionHash } from "../inference/definition_hash.ts";
import { findGrant } from "../store/approval_grants.ts";
import type { Database } from "../store/database.ts";
import { readOutsideSources } from "../store/sub_runs.ts";

/** Whose calls are judged. */
export interface PermitOptions {
  db: Database;
  tenantId: string;
  keyId: string;
  agent: string;
  sessionId: string;
  runId: string;
  /** Whether it counts what the run has read of others. */
  heedsTaint: boolean;
  log: Log;
}

/**
 * Lets calls run, but for those that a person has to approve and has not approved before: by what their tool says, and
 * whatever it says once the run has read what others wrote. That, and what was granted, is read anew for each call, so that
 * it holds on every replica, and is over on every replica.
 */
export function createPermit(
  { db, log, heedsTaint, ...caller }: PermitOptions,
): (request: PermissionRequest) => Promise<Permission> {
  return async ({ toolCallId, tool, step }) => {
    // The journal says what has begun before it does, so it knows more than this replica.
    const judged = { ...caller, step };
    const tainted = heedsTaint && isTouchy(tool) ? await readOutsideSources(db, judged) : [];
    const { isAsked, grantId } = await decide(db, { ...caller, tool, tainted });
    if (isAsked) return { allowed: "ask", ...(tainted.length === 0 ? {} : { tainted }) };
    if (grantId !== null) {
      log.info("A call runs by an earlier approval", { toolCallId, tool: tool.name, grantId });
    }
    return { allowed: true };
  };
}

/**
 * Tells which of some calls, made one behind the other, a person would be asked about: by what was read of others and
 * granted so far, and by what the calls before would read.
 */
export function createForesight(
  { db, heedsTaint, ...caller }: Omit<PermitOptions, "log">,
): (tools: readonly (Tool | undefined)[]) => Promise<boolean[]> {
  return async (tools) => {
    const read = new Set(heedsTaint ? await readOutsideSources(db, caller) : []);
    const asked: boolean[] = [];
    for (const tool of tools) {
      if (tool === undefined) {
        asked.push(false);
        continue;
      }
      const tainted = isTouchy(tool) ? [...read] : [];
      asked.push((await decide(db, { ...caller, tool, tainted })).isAsked);
      if (heedsTaint && tool.outside !== undefined) read.add(tool.outside.source);
    }
    return asked;
  };
}

/** Whether a person is asked about a call, and the grant by which nobody is, where there is one. */
async function decide(
  db: Database,
  { tool, tainted, ...caller }:
    & Pick<PermitOptions, "tenantId" | "keyId" | "agent" | "runId">
    & { tool: Tool; tainted: readonly string[] },
): Promise<{ isAsked: boolean; grantId: string | null }> {
  if (tool.approval === "never" && tainted.length === 0) return { isAsked: false, grantId: null };
  if (tool.approval === "always") return { isAsked: true, grantId: null };
  const wanted = { ...caller, toolName: tool.name, defHash: definitionHash(tool), tainted };
  const grantId = await findGrant(db, wanted);
  return { isAsked: grantId === null, grantId };
}

/** Whether a call of this tool does something, or tells somebody outside something, that words of others may have led to. */
function isTouchy({ effect, outside }: Tool): boolean {
  return effect !== "pure" || outside?.sends === true;
}
