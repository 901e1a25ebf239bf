import type { IdSource } from "../core/id.ts";
import type { ExecuteTool } from "../inference/agent_run.ts";
import { callTool } from "../operations/call.ts";
import { saveBlob } from "../store/blobs.ts";
import type { Database } from "../store/database.ts";

/** Makes what executes the tool calls of runs: results that are too long for a model are stored whole. */
export function createExecuteTool(
  { db, ids, observe }: {
    db: Database;
    ids: IdSource;
    observe(facts: { tool: string; outcome: string; durationMs: number }): void;
  },
): ExecuteTool {
  return async (tool, input, context) => {
    const outcome = await callTool(tool, input, {
      context,
      saveResult: async (text) => {
        const blobId = ids.next("blob");
        const { sessionId, runId, toolCallId, principal: { tenantId } } = context;
        await saveBlob(db, { tenantId, blobId, sessionId, runId, toolCallId, text });
        return blobId;
      },
    });
    const { durationMs } = outcome;
    observe({ tool: tool.name, outcome: outcome.status, durationMs });
    return outcome;
  };
}
