import {
  CLIENT_CAPABILITIES_META_KEY,
  type Server,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import type { CallingAgain, Principal, ToolAnswer, ToolContext } from "../../core/tool.ts";
import { elicitationOf } from "../../mcp/answer_questions.ts";

/** The call's own limits decide how long a model's answer is waited for. */
export const NO_TIMEOUT_MS = 2_147_483_647;
/** A client that has not answered by then is not waited for any more. */
const ANSWER_MS = 10 * 60_000;

/**
 * Asks the client of a call what the call is asked; undefined for clients that take no questions, for keys that may answer
 * none, and for revisions without requests of the server.
 */
export function clientsAsk(
  server: Server,
  { mcpReq }: ServerContext,
  { answers }: Pick<Principal, "answers">,
): ToolContext["ask"] {
  if (answers === "none") return undefined;
  const can = server.getClientCapabilities()?.elicitation;
  if (can === undefined || mcpReq.envelope !== undefined) return undefined;
  return async (question, asking): Promise<ToolAnswer> => {
    if (question.kind === "url" ? can.url === undefined : can.form === undefined) {
      return { action: "decline" };
    }
    const signal = AbortSignal.any([mcpReq.signal, asking]);
    const options = { relatedRequestId: mcpReq.id, signal, timeout: ANSWER_MS };
    const { action, content } = await mcpReq.elicitInput(
      elicitationOf(question) as unknown as Params,
      options,
    );
    if (action !== "accept") return { action };
    return isJsonObject(content as Json) ? { action, content: content as JsonObject } : { action };
  };
}

type Params = Parameters<ServerContext["mcpReq"]["elicitInput"]>[0];

/**
 * What a client of revision 2026-07-28 says of being asked; undefined for older ones, which are asked in the middle of a
 * call, and for keys that may answer nothing.
 */
export function clientsAgain(
  { mcpReq }: ServerContext,
  { answers }: Pick<Principal, "answers">,
): CallingAgain | undefined {
  if (answers === "none") return undefined;
  const { envelope, inputResponses } = mcpReq;
  if (envelope === undefined) return undefined;
  const state: unknown = mcpReq.requestState();
  const capabilities = (envelope as JsonObject)[CLIENT_CAPABILITIES_META_KEY];
  return {
    capabilities: isJsonObject(capabilities) ? capabilities : {},
    ...inputResponses === undefined ? {} : { responses: inputResponses as JsonObject },
    ...typeof state === "string" ? { state } : {},
  };
}
