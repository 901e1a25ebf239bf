import type {
  CreateMessageRequestParams,
  Server,
  ServerContext,
} from "@modelcontextprotocol/server";
import type { Json } from "../../core/json.ts";
import type { ToolContext } from "../../core/tool.ts";
import { NO_TIMEOUT_MS } from "./clients_ask.ts";

/** Asks the client of a call for an answer of a model; undefined for clients that give none. */
export function clientsSample(server: Server, { mcpReq }: ServerContext): ToolContext["sample"] {
  const can = server.getClientCapabilities()?.sampling;
  if (can === undefined || mcpReq.envelope !== undefined) return undefined;
  const { id: relatedRequestId, signal } = mcpReq;
  return async (params) =>
    await mcpReq.requestSampling(
      params as unknown as CreateMessageRequestParams,
      { relatedRequestId, signal, timeout: NO_TIMEOUT_MS },
    ) as unknown as Json;
}
