import { type JSONRPCMessage, parseJSONRPCMessage } from "@modelcontextprotocol/server";
import { toHubError } from "../../core/error.ts";
import type { Json } from "../../core/json.ts";
import { parseJsonInSteps } from "../../core/large_json/json_in_steps.ts";

/** What is answered to what is no message (JSON-RPC 2.0, 5.1). */
export interface Refusal {
  jsonrpc: "2.0";
  id: null;
  error: { code: number; message: string };
}

/** Codes of JSON-RPC 2.0. */
export const RPC = { parseError: -32700, invalidRequest: -32600 } as const;

/** A message, or the answer to what is none. */
export type ReadMessage = { message: JSONRPCMessage } | { refusal: Refusal };

/** Reads one message as a connection brings it. Never rejects. */
export async function readMessage(bytes: Uint8Array): Promise<ReadMessage> {
  let value: Json;
  try {
    value = await parseJsonInSteps(bytes);
  } catch (failure) {
    const { code, message } = toHubError(failure);
    const kind = code === "invalid_json" ? RPC.parseError : RPC.invalidRequest;
    return { refusal: refuse(kind, message) };
  }
  try {
    return { message: parseJSONRPCMessage(value) };
  } catch {
    return { refusal: refuse(RPC.invalidRequest, "That is no message of JSON-RPC 2.0") };
  }
}

/** The answer to what is no message. */
export function refuse(code: number, message: string): Refusal {
  return { jsonrpc: "2.0", id: null, error: { code, message } };
}
