import { HubError, toHubError } from "../core/error.ts";
import type { ModelUse } from "../core/model_use.ts";
import type { ModelRequest } from "../core/model.ts";
import { StepWriter } from "../core/step_writer.ts";
import type { AgentRun } from "./agent_run.ts";
import { ModelReader } from "./model_reader.ts";
import type { RunLedger } from "./run_ledger.ts";

/** What the model reads, as the user's words, behind what it is to summarise. */
export const SUMMARISE =
  "The conversation has grown too long and everything above will be replaced by a summary that you write now. Do not " +
  "call tools and do not go on with the task. Tell for whoever goes on with it: what the user wants, in the user's own " +
  "words where they matter; what was done and found, with names, paths, numbers and refs that are still needed; what " +
  "was decided and why; what failed; what is left to do.";

/**
 * Asks the model for a summary; nobody sees how it comes. Counted like any other call. Null when there is none, for
 * whatever reason: the run may go on without. Rejects with the run's reason when it is stopped.
 */
export async function askSummary(
  run: AgentRun,
  ledger: RunLedger,
  { request, step }: { request: ModelRequest; step: number },
): Promise<string | null> {
  const { signal, runId, sessionId, log } = run;
  const writer = new StepWriter({
    firstPart: ledger.nextPart,
    mintCallId: (id) => id,
    ignoreCalls: true,
  });
  const context = {
    signal,
    runId,
    sessionId,
    step,
    stepAttempt: 0,
    isSummary: true as const,
    onUsed: (use: ModelUse) => ledger.note(use),
  };
  const reader = new ModelReader(run.callModel, request, context);
  try {
    while (writer.finishReason === null) {
      const read = await reader.read();
      if (read === null) {
        throw new HubError("upstream_cut", "The summary ended without a finish reason");
      }
      writer.push(read);
    }
    await reader.drain();
  } catch (error) {
    if (signal.aborted) throw error;
    log.warn("A conversation could not be summarised", { runId, step, error: toHubError(error) });
    return null;
  } finally {
    await reader.close();
    ledger.book(writer);
  }
  const text = writer.text.trim();
  return text === "" || writer.isRefusal ? null : text;
}
