import type { IdSource } from "../core/id.ts";
import type { ExecuteTool } from "../inference/agent_run.ts";
import { DEFAULT_RESULT_BOUNDS, type ResultBounds } from "../operations/result_bounds.ts";
import { callTool } from "../operations/call.ts";
import { saveBlob } from "../store/blobs.ts";
import type { Database } from "../store/database.ts";
import { sessionFiles } from "./session_files.ts";

/** Makes what executes the tool calls of runs: results that are too long for a model are stored whole, and
 * files. */
export function createExecuteTool(
  { db, ids, observe, results = DEFAULT_RESULT_BOUNDS }: {
    db: Database;
    ids: IdSource;
    /** How long a result may be that a model reads. */
    results?: ResultBounds;
    observe(facts: { tool: string; outcome: string; durationMs: number }): void;
  },
): ExecuteTool {
  return async (tool, input, context) => {
    const outcome = await callTool(tool, input, {
      context,
      limits: { resultBytes: results.bytes, resultLines: results.lines },
      saveResult: async (text) => {
        const blobId = ids.next("blob");
        const { sessionId, runId, toolCallId, principal: { tenantId } } = context;
        await saveBlob(db, { tenantId, blobId, sessionId, runId, toolCallId, text });
        return blobId;
      },
      files: (file) => {
        const { sessionId, principal: { tenantId } } = context;
        return sessionFiles(db, { tenantId, sessionId }).save(file);
      },
    });
    const { durationMs } = outcome;
    observe({ tool: tool.name, outcome: outcome.status, durationMs });
    return outcome;
  };
}
