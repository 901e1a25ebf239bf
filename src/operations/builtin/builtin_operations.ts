import type { Operation } from "../operation.ts";
import type { ResultBounds } from "../result_bounds.ts";
import { createCalculate } from "./calculate.ts";
import { createCurrentTime } from "./current_time.ts";
import { createReadResult, type ReadBlob, type ReadOutcome } from "./read_result.ts";
import { createSearchHistory, type ReadMessages } from "./search_history.ts";
import { createWait } from "./wait.ts";

/** What the hub's own operations read from. */
export interface BuiltinOptions {
  readBlob: ReadBlob;
  readOutcome?: ReadOutcome;
  readMessages: ReadMessages;
  /** How long a result may be; as `DEFAULT_RESULT_BOUNDS` when left out. */
  results?: ResultBounds;
}

/** The operations every hub has, all in the namespace `hub` and all without effects outside. */
export function createBuiltinOperations(options: BuiltinOptions): Operation[] {
  return [
    createCalculate(),
    createCurrentTime(),
    createReadResult(options),
    createSearchHistory(options),
    createWait(),
  ];
}
