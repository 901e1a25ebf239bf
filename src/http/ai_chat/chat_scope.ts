import { HubError } from "../../core/error.ts";
import type { Principal } from "../../core/tool.ts";

type Caller = Pick<Principal, "scope">;

/** Throws `not_found` when the caller came with a browser token for another chat. */
export function assertChat({ scope }: Caller, chatId: string): void {
  if (scope !== undefined && scope.chatId !== chatId) throw noChat(chatId);
}

/** Throws `permission_denied` when the caller came with a browser token for another agent. */
export function assertScopedAgent({ scope }: Caller, agent: string): void {
  if (scope === undefined || scope.agent === agent) return;
  throw new HubError(
    "permission_denied",
    `This browser token is for the agent ${JSON.stringify(scope.agent)}, not for ${
      JSON.stringify(agent.slice(0, 64))
    }`,
    { param: "agent" },
  );
}

/** Throws `permission_denied` when the caller came with a browser token, and names another model than its agent has. */
export function assertScopedModel(
  { scope }: Caller,
  { asked, own }: { asked: string; own: string },
): void {
  if (scope === undefined || asked === own) return;
  throw new HubError(
    "permission_denied",
    "A request with a browser token may not choose the model: its agent does",
    { param: "model" },
  );
}

/** There is no such chat, as far as its caller may know. */
export function noChat(id: string): HubError {
  return new HubError("not_found", `There is no chat ${id.slice(0, 80)}`);
}
