import { ERROR_KINDS, type ErrorCode, HubError } from "../../core/error.ts";
import type { RunFacts } from "../../core/run_facts.ts";
import { errorOf } from "../../run/stored_facts.ts";
import type { StoredRun } from "../../store/runs.ts";
import { errorReply } from "../on_error.ts";
import type { Reply } from "../reply.ts";

/**
 * The answer for whoever waited for a whole message and gets none; null when the run has one. `mayRepeat`: the request
 * has an id, so that the same request again is answered by the same run.
 */
export function runFailure(run: StoredRun, { mayRepeat }: { mayRepeat: boolean }): Reply | null {
  const headers = { "x-loophub-run": run.runId };
  if (run.status === "failed") {
    // The message is said already: the same request again gets the same failure, or says it twice.
    return errorReply(toRunError(errorOf(run.error)), {
      headers: { ...headers, "x-should-retry": "false" },
    });
  }
  if (run.status !== "queued" && run.status !== "running") return null;
  const error = new HubError(
    "lease_lost",
    `The run goes on elsewhere: follow it at /v1/runs/${run.runId}/stream`,
    { retryAfterMs: 1000 },
  );
  return errorReply(error, {
    headers: mayRepeat ? headers : { ...headers, "x-should-retry": "false" },
  });
}

/** What a run has failed with. It keeps the code that clients see. It names a row of the table, unless a provider has chosen it. */
export function toRunError(
  { code, errorText, retryable }: NonNullable<RunFacts["error"]>,
): HubError {
  if (code === "interrupted") return new HubError("lease_lost", errorText, { clientCode: code });
  if (isOwnCode(code) && ERROR_KINDS[code].retryable === retryable) {
    return new HubError(code, errorText);
  }
  const kind = retryable ? "upstream_error" : "upstream_rejected";
  return new HubError(kind, errorText, { clientCode: code });
}

/** A run never fails for want of the caller's own rights: a code that says so is a provider's word about the hub's. */
function isOwnCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERROR_KINDS, code) && code !== "invalid_api_key" &&
    code !== "permission_denied";
}
