import type { Clock } from "../core/clock.ts";
import type { Json, JsonObject } from "../core/json.ts";
import type { SamplingCaller } from "../core/sampling.ts";
import type { ToolContext } from "../core/tool.ts";
import { statusOf } from "./failure.ts";
import type { OpenedClient } from "./open_client.ts";
import type { Asker } from "./answer_questions.ts";
import { withLogLevel } from "./pass_messages.ts";
import { ACCEPT_ALL } from "./read_pages.ts";
import { mirrorsArguments } from "./read_tools.ts";

/** A request as the server gets it. */
export interface RequestWish {
  method: string;
  params: JsonObject;
  /** What errors call it: `The tool x`. */
  what: string;
  /** Arguments as headers, for servers that want them so. */
  headers?: Record<string, string>;
  signal: AbortSignal;
  progress(data: Json): void;
  ask?: ToolContext["ask"];
  tell?: ToolContext["tell"];
  sample?: ToolContext["sample"];
  caller?: SamplingCaller;
}

/** The SDK's own timer must never be first: the hub's clock counts. */
const NO_TIMEOUT_MS = 2_147_483_647;
/** What the server is told of a call that is not waited for any more; never the caller's own words. */
const CANCELLED = "The result is not wanted any more";

/**
 * Asks a server for something, at most `idleMs` without progress or an open question. The caller's signal stops it, and
 * the server is told. Rejects with the protocol's error.
 */
export async function sendRequest(
  { client, askers }: Pick<OpenedClient, "client" | "askers">,
  { method, params, what, headers = {}, signal, progress, ask, tell, sample, caller }: RequestWish,
  { clock, idleMs }: { clock: Clock; idleMs: number },
): Promise<Json> {
  signal.throwIfAborted();
  const stop = new AbortController();
  let isLate = false;
  const onLate = () => {
    isLate = true;
    stop.abort(CANCELLED);
  };
  let timer = clock.setTimer(onLate, idleMs);
  const onAbort = () => stop.abort(CANCELLED);
  signal.addEventListener("abort", onAbort, { once: true });
  const pause = async <T>(wait: () => Promise<T>): Promise<T> => {
    clock.clearTimer(timer);
    try {
      return await wait();
    } finally {
      clock.clearTimer(timer);
      if (!stop.signal.aborted) timer = clock.setTimer(onLate, idleMs);
    }
  };
  const asker: Asker = {
    signal: stop.signal,
    tell,
    pause,
    sample,
    caller,
    ask: async (question) =>
      ask === undefined ? { action: "decline" } : await pause(() => ask(question)),
  };
  askers.add(asker);
  try {
    const answer = await client.request(
      { method, params: tell === undefined ? params : withLogLevel(client, params) },
      ACCEPT_ALL,
      {
        signal: stop.signal,
        timeout: NO_TIMEOUT_MS,
        ...mirrorsArguments(client) ? { headers } : {},
        onprogress(report) {
          clock.clearTimer(timer);
          if (!stop.signal.aborted) timer = clock.setTimer(onLate, idleMs);
          progress({ ...report } as JsonObject);
        },
      },
    );
    return answer as Json;
  } catch (error) {
    if (isLate) {
      throw new CallTimeout(
        `${what} said nothing for ${idleMs} ms; do not assume that it did its work`,
      );
    }
    if (signal.aborted) throw signal.reason;
    throw error;
  } finally {
    askers.delete(asker);
    stop.abort(CANCELLED);
    clock.clearTimer(timer);
    signal.removeEventListener("abort", onAbort);
  }
}

/** True when the connection ended while the answer was waited for: nobody knows what became of the call. */
export function isLost(error: unknown): boolean {
  if (!(error instanceof Error) || error instanceof CallTimeout || statusOf(error) !== null) {
    return false;
  }
  if (!("code" in error) || error.code === undefined) return true;
  return error.code === "CONNECTION_CLOSED" || error.code === "SEND_FAILED";
}

class CallTimeout extends Error {}
