import type { IdSource } from "../core/id.ts";
import type { ExecuteTool } from "../inference/agent_run.ts";
import { callTool } from "../operations/call.ts";
import { saveBlob } from "../store/blobs.ts";
import { saveFile } from "../store/files.ts";
import type { Database } from "../store/database.ts";

/** Where a file of a session is read. */
function fileLink(sessionId: string, sha256: string): string {
  return `/v1/sessions/${sessionId}/files/${sha256}`;
}

/** Makes what executes the tool calls of runs: results that are too long for a model are stored whole, and
 * files. */
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
      files: async (file) => {
        const { sessionId, principal: { tenantId } } = context;
        return fileLink(sessionId, await saveFile(db, { tenantId, sessionId, ...file }));
      },
    });
    const { durationMs } = outcome;
    observe({ tool: tool.name, outcome: outcome.status, durationMs });
    return outcome;
  };
}
