import { EXIT } from "./exit_codes.ts";

/** Signals that ask a process to stop. */
export type StopSignal = "SIGINT" | "SIGTERM";

/** Resolves with the first signal that asks to stop. The second does not wait for anything: `onSecond`, and exit. */
export function catchStopSignal(onSecond: () => void = () => {}): Promise<StopSignal> {
  const first = Promise.withResolvers<StopSignal>();
  let signals = 0;
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    Deno.addSignalListener(signal, () => {
      if (++signals > 1) {
        onSecond();
        Deno.exit(EXIT.interrupted);
      }
      first.resolve(signal);
    });
  }
  return first.promise;
}
