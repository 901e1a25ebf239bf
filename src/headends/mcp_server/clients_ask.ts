import type { Server, ServerContext } from "@modelcontextprotocol/server";
import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import type { ToolAnswer, ToolContext, ToolQuestion } from "../../core/tool.ts";

/** The hub's own clocks decide how long an answer is waited for. */
export const NO_TIMEOUT_MS = 2_147_483_647;

/**
 * Asks the client of a call what the call is asked; undefined for clients that take no questions, or that speak a
 * revision without requests of the server.
 */
export function clientsAsk(server: Server, { mcpReq }: ServerContext): ToolContext["ask"] {
  const can = server.getClientCapabilities()?.elicitation;
  if (can === undefined || mcpReq.envelope !== undefined) return undefined;
  return async (question): Promise<ToolAnswer> => {
    if (question.kind === "url" ? can.url === undefined : can.form === undefined) {
      return { action: "decline" };
    }
    const { id: relatedRequestId, signal } = mcpReq;
    const options = { relatedRequestId, signal, timeout: NO_TIMEOUT_MS };
    const { action, content } = await mcpReq.elicitInput(toParams(question), options);
    if (action !== "accept") return { action };
    return isJsonObject(content as Json) ? { action, content: content as JsonObject } : { action };
  };
}

type Params = Parameters<ServerContext["mcpReq"]["elicitInput"]>[0];

function toParams({ source, message: text, ...asked }: ToolQuestion): Params {
  const message = `${source}: ${text}`;
  const params = asked.kind === "url"
    ? { mode: "url", message, url: asked.url, elicitationId: asked.id }
    : { mode: "form", message, requestedSchema: asked.schema };
  return params as Params;
}
