import type { AuthInfo } from "@modelcontextprotocol/server";
import { HubError } from "../../core/error.ts";
import type { Call } from "../../http/call.ts";
import { handedOf, type HandedOptions } from "../../http/handed.ts";
import type { Caller, MirroredHeaders } from "./served_tool.ts";

/** Who calls, as the protocol's library carries it to `callerOf`. It must not hold the key: that was checked already. Throws `invalid_request`. */
export function toAuthInfo(
  call: Call,
  options: HandedOptions,
  mirrored?: MirroredHeaders,
): AuthInfo {
  const { principal, requestId, span } = call;
  const caller: Caller = {
    principal,
    requestId,
    span,
    handed: handedOf(call, options),
    ...mirrored === undefined ? {} : { mirrored },
  };
  const { keyId, role } = principal;
  return { token: "", clientId: keyId, scopes: [role], extra: { caller } };
}

/** Whose a request is. */
export function callerOf({ http }: { http?: { authInfo?: AuthInfo } }): Caller {
  const caller = http?.authInfo?.extra?.["caller"];
  if (caller === undefined) throw new HubError("internal_error", "An MCP request has no caller");
  return caller as Caller;
}
