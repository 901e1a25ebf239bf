import type { Permission, PermissionRequest } from "../inference/agent_run.ts";

/** Lets calls run, but for those that a person has to approve. */
export function permit({ tool }: PermissionRequest): Promise<Permission> {
  return Promise.resolve({ allowed: tool.approval === "never" ? true : "ask" });
}
