import { sleep } from "../../core/clock.ts";
import { defineOperation, type Operation, Type } from "../operation.ts";

const MAX_SECONDS = 60;

/** `hub.wait`: sleeps on the hub's clock; ends at once when the run is stopped. */
export function createWait(): Operation {
  return defineOperation({
    namespace: "hub",
    name: "wait",
    description: "Waits for a number of seconds, at most 60, and then answers. " +
      "Use it before looking again at something that takes time; call it again to wait longer.",
    input: Type.Object({
      seconds: Type.Number({ minimum: 0, maximum: MAX_SECONDS, description: "How long to wait" }),
    }),
    effect: "pure",
    polling: true,
    timeoutMs: (MAX_SECONDS + 5) * 1000,
    async run({ seconds }, { clock, signal, progress }) {
      progress({ waitingSeconds: seconds });
      await sleep(clock, seconds * 1000, signal);
      return `Waited ${seconds} ${seconds === 1 ? "second" : "seconds"}`;
    },
  });
}
