import { HubError } from "../core/error.ts";
import { assertSteeringGiven } from "./assert_given.ts";
import type { Database } from "../store/database.ts";
import {
  addSteering,
  MAX_STEERING,
  MAX_STEERING_BYTES,
  type NewSteering,
  type StoredSteering,
} from "../store/steering.ts";

/**
 * Says something to a run that goes on, wherever it is driven. Throws `not_found`, `invalid_request` for a text that is too long, `conflict` when the run is over, is
 * being stopped or was told too much, `idempotency_mismatch` when the client's id came before with another text.
 */
export async function sayToRun(db: Database, said: NewSteering): Promise<StoredSteering> {
  const { runId, text, kind, clientId } = said;
  assertSteeringGiven(said);
  const added = await addSteering(db, said);
  switch (added.kind) {
    case "no-run":
      throw new HubError("not_found", `There is no run ${runId}`);
    case "over": {
      const why = added.isStopping ? "is being stopped" : `does not run (${added.status})`;
      throw new HubError(
        "conflict",
        `${runId} ${why}: the text was not taken, say it in a new message`,
        { clientCode: "run_over", details: { status: added.status } },
      );
    }
    case "full":
      throw new HubError(
        "conflict",
        `${runId} was told as much as it takes, ${MAX_STEERING} texts of ${MAX_STEERING_BYTES} bytes together`,
        { clientCode: "run_full" },
      );
    case "said":
    case "known":
      break;
  }
  const { steering } = added;
  if (steering.text === text && steering.kind === kind) return steering;
  throw new HubError(
    "idempotency_mismatch",
    `The id ${clientId} came before with another text: a new text wants a new id`,
  );
}
