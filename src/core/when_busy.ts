/**
 * What is done with a message to a chat whose run goes on: `queue` answers it behind that run, `steer` says it to the run,
 * `replace` stops the run first, `refuse` is an error.
 */
export type WhenBusy = "queue" | "steer" | "replace" | "refuse";

/** Every value, for checks. */
export const WHEN_BUSY: readonly WhenBusy[] = ["queue", "steer", "replace", "refuse"];
