import type { Call } from "../call.ts";

/** Asks a provider; the time that goes by until it answers is none of the hub's own. */
export async function awaitAnswer<T>(
  call: Pick<Call, "clock" | "addUpstreamWait">,
  begin: () => Promise<T>,
): Promise<T> {
  const startedMs = call.clock.monotonic();
  try {
    return await begin();
  } finally {
    call.addUpstreamWait(call.clock.monotonic() - startedMs);
  }
}
