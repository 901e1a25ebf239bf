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
    if (tool.approval === "never" && tainted.length === 0) return { allowed: true };
    const ask: Permission = { allowed: "ask", ...(tainted.length === 0 ? {} : { tainted }) };
    if (tool.approval === "always") return ask;
    const wanted = { ...caller, toolName: tool.name, defHash: definitionHash(tool), tainted };
    const grantId = await findGrant(db, wanted);
    if (grantId === null) return ask;
    log.info("A call runs by an earlier approval", { toolCallId, tool: tool.name, grantId });
    return { allowed: true };
  };
}

/** Whether a call of this tool does something, or tells somebody outside something, that words of others may have led to. */
function isTouchy({ effect, outside }: Tool): boolean {
  return effect !== "pure" || outside?.sends === true;
}
