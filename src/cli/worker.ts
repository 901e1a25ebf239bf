import { createHub } from "../hub/create_hub.ts";
import { EXIT } from "./exit_codes.ts";
import { print } from "./print.ts";
import { serveUntilStopped } from "./serve_until_stopped.ts";
import { catchStopSignal } from "./stop_signals.ts";
import { systemHubOptions } from "./system.ts";
import { readBrief, readyLine } from "./worker_brief.ts";

/** `loophub worker`: one of the processes of `start --replicas`, which starts it and tells it what to serve. */
export async function work(): Promise<number> {
  const stopSignal = catchStopSignal();
  // A parent that was killed took the embedded Postgres with it: there is nothing left to end well.
  const onOrphaned = () => Deno.exit(EXIT.failed);
  const { number, loaded } = await readBrief(Deno.stdin.readable, onOrphaned);
  const options = systemHubOptions(loaded, { worker: number });
  const hub = await createHub(options);
  try {
    print(readyLine(hub.listen().url));
    return await serveUntilStopped(hub, { stopSignal, log: options.log });
  } finally {
    await hub.close();
  }
}
