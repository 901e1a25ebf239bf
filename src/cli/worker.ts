import type { LoadedConfig } from "../config/load.ts";
import { toHubError } from "../core/error.ts";
import { createHub } from "../hub/create_hub.ts";
import { takeOver } from "../hub/live_config.ts";
import { EXIT } from "./exit_codes.ts";
import { print } from "./print.ts";
import { exitCodeOf, serveUntilStopped } from "./serve_until_stopped.ts";
import { catchStopSignal } from "./stop_signals.ts";
import { systemHubOptions } from "./system.ts";
import { answerLine, readBrief, readyLine } from "./worker_brief.ts";

/** `loophub worker`: one of the processes of `start --replicas`, which starts it and tells it what to serve. */
export async function work(): Promise<number> {
  const stopSignal = catchStopSignal();
  // A parent that was killed took the embedded Postgres with it: there is nothing left to end well.
  const onOrphaned = () => Deno.exit(EXIT.failed);
  const early: LoadedConfig[] = [];
  let reload = (next: LoadedConfig): void => void early.push(next);
  const onReload = (next: LoadedConfig) => reload(next);
  const brief = await readBrief(Deno.stdin.readable, { onReload, onEnd: onOrphaned });
  const options = systemHubOptions(brief.loaded, { worker: brief.number });
  const hub = await createHub(options);
  // One that came while the hub was built is not lost.
  // What its parent settled for it stays.
  reload = (next) => {
    hub.reload({ ...next, config: takeOver(brief.loaded.config, next.config) }).then(
      () => print(answerLine({ refusal: null })),
      (error: unknown) => print(answerLine({ refusal: toHubError(error).message })),
    );
  };
  for (const next of early) reload(next);
  let code: number | null = null;
  try {
    print(readyLine(hub.listen().url));
    code = await serveUntilStopped(hub, { stopSignal, log: options.log });
  } finally {
    const unwritten = await hub.close();
    if (code !== null) code = exitCodeOf(code, unwritten);
  }
  return code;
}
