import { ProtocolError, ProtocolErrorCode } from "@modelcontextprotocol/server";
import { HubError } from "../../core/error.ts";
import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";

/** Why a state is refused that was handed out with a question. */
const WRONG_STATE = "invalid_request_state";

/** What a client is told of a request that failed; what is no error of the hub's stays as it is. */
export function toProtocolError(error: unknown): unknown {
  if (!(error instanceof HubError)) return error;
  const refused = inputFailure(error);
  if (refused !== null) return refused;
  const isAsked = error.code === "not_found" || error.code === "invalid_request";
  const code = isAsked ? ProtocolErrorCode.InvalidParams : ProtocolErrorCode.InternalError;
  return new ProtocolError(code, error.message);
}

/**
 * What a server behind the hub has refused of what a client can be asked, or has handed in again, in its words; null for all
 * else.
 */
export function inputFailure(error: unknown): ProtocolError | null {
  for (let at: unknown = error, depth = 0; at instanceof Error && depth < 8; depth++) {
    if (at instanceof ProtocolError && isOfInput(at)) {
      return new ProtocolError(at.code, at.message, at.data);
    }
    at = at.cause;
  }
  return null;
}

function isOfInput({ code, data }: ProtocolError): boolean {
  if (code === ProtocolErrorCode.MissingRequiredClientCapability) return true;
  return code === ProtocolErrorCode.InvalidParams && isJsonObject(data as Json) &&
    (data as JsonObject).reason === WRONG_STATE;
}
