import type { Answer } from "../../router/open_answer.ts";
import type { Call } from "../call.ts";

/** Asks a provider; the time that goes by until it answers is none of the hub's own. */
export async function awaitAnswer(
  call: Pick<Call, "clock" | "addUpstreamWait">,
  begin: () => Promise<Answer>,
): Promise<Answer> {
  const startedMs = call.clock.monotonic();
  try {
    return await begin();
  } finally {
    call.addUpstreamWait(call.clock.monotonic() - startedMs);
  }
}
