/** A call went out, and nobody knows what became of it: it may have done its work. The message is for the model. */
export class OutcomeUnknown extends Error {
  override readonly name = "OutcomeUnknown";
}

/** True for a failure that is one of these, or comes of one. */
export function isInDoubt(error: unknown): boolean {
  for (let at = error, depth = 0; at instanceof Error && depth < 8; depth++) {
    if (at instanceof OutcomeUnknown) return true;
    at = at.cause;
  }
  return false;
}
