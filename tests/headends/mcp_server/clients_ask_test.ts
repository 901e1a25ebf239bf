import assert from "node:assert/strict";
import type { Server, ServerContext } from "@modelcontextprotocol/server";
import { clientsAsk } from "../../../src/headends/mcp_server/clients_ask.ts";

const QUESTION = {
  source: "docs",
  kind: "form",
  message: "Which?",
  schema: { type: "object", properties: {} },
} as const;

Deno.test("a client that is asked in the middle of a call has ten minutes, and no longer than the call", async () => {
  const call = new AbortController();
  const asked: { timeout?: number; signal?: AbortSignal; relatedRequestId?: unknown }[] = [];
  const late = new Error("Request timed out");
  const mcpReq = {
    id: 7,
    signal: call.signal,
    elicitInput(_params: unknown, options: typeof asked[number]) {
      asked.push(options);
      return Promise.reject(late);
    },
  };
  const server = { getClientCapabilities: () => ({ elicitation: { form: {} } }) };
  const parts = [server as unknown as Server, { mcpReq } as unknown as ServerContext] as const;
  assert.equal(clientsAsk(...parts, { answers: "none" }), undefined);
  const ask = clientsAsk(...parts, {});
  const waiting = new AbortController();
  await assert.rejects(async () => await ask?.(QUESTION, waiting.signal), late);
  const [options] = asked;
  assert.equal(options?.timeout, 600_000);
  assert.equal(options?.relatedRequestId, 7);
  assert.equal(options?.signal?.aborted, false);
  call.abort();
  assert.equal(options?.signal?.aborted, true);
});
