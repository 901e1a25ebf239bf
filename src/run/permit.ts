import type { Log } from "../core/log.ts";
import type { Permission, PermissionRequest } from "../inference/agent_run.ts";

/** Lets calls run but for those that a person has to approve: nobody can be asked yet, so they are refused. */
export function createPermit(log: Log): (request: PermissionRequest) => Promise<Permission> {
  return ({ toolCallId, tool }) => {
    if (tool.approval === "never") return Promise.resolve({ allowed: true });
    log.warn("A tool call that needs an approval was refused", { toolCallId, tool: tool.name });
    return Promise.resolve({
      allowed: false,
      reason: `Not executed: ${tool.name} needs an approval, which this hub cannot ask for yet`,
    });
  };
}
