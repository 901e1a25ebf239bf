import { type Clock, sleep } from "../core/clock.ts";
import type { Json, JsonObject } from "../core/json.ts";
import { OutcomeUnknown } from "../core/outcome_unknown.ts";
import type { SamplingCaller } from "../core/sampling.ts";
import type { ToolContext } from "../core/tool.ts";
import { statusOf } from "./failure.ts";
import type { OpenedClient } from "./open_client.ts";
import { type Asker, secretsGiven } from "./answer_questions.ts";
import {
  answerInput,
  givenAgain,
  InputRefused,
  isOurs,
  readInput,
  toCaller,
  wantsInput,
  withCapabilities,
} from "./input_required.ts";
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
  /** Left out where nobody listens; no progress lengthens the wait then. */
  progress?(data: Json): void;
  /** Asks whoever called what the server wants to know; left out where nobody can be asked. */
  ask?: ToolContext["ask"];
  /** Says to whoever called what the server says in the middle of it; left out where nobody listens. */
  tell?: ToolContext["tell"];
  /** Has them ask a model; left out where nobody can. */
  sample?: ToolContext["sample"];
  /** On whose account models are asked; left out where none are. */
  caller?: SamplingCaller;
  /** Set where whoever called is asked by the result. */
  again?: ToolContext["again"];
}

/** The SDK's own timer must never be first: the hub's clock counts. */
const NO_TIMEOUT_MS = 2_147_483_647;
/** How often a server may want more before it answers. */
const MAX_ROUNDS = 10;
/** How long a server is left alone that wants nothing but to be asked again. */
const PACE_MS = 250;
/** What the server is told of a call that is not waited for any more; never the caller's own words. */
const CANCELLED = "The result is not wanted any more";

/**
 * Asks a server for something, at most `idleMs` without progress or an open question. The caller's signal stops it, and
 * the server is told. Rejects with the protocol's error.
 */
export async function sendRequest(
  { client, server, askers, answers }: Pick<
    OpenedClient,
    "client" | "server" | "askers" | "answers"
  >,
  { method, params, what, headers = {}, signal, progress, ask, tell, sample, caller, again }:
    RequestWish,
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
  let pauses = 0;
  /** Counts the silence anew, unless something is waited for that is none. */
  const count = () => {
    clock.clearTimer(timer);
    if (pauses === 0 && !stop.signal.aborted) timer = clock.setTimer(onLate, idleMs);
  };
  const pause = async <T>(wait: () => Promise<T>): Promise<T> => {
    pauses++;
    count();
    try {
      return await wait();
    } finally {
      pauses--;
      count();
    }
  };
  const asker: Asker = {
    signal: stop.signal,
    tell,
    pause,
    sample,
    caller,
    ask: async (question, asking) =>
      ask === undefined ? { action: "decline" } : await pause(() => ask(question, asking)),
  };
  askers.add(asker);
  const listened = tell === undefined ? params : withLogLevel(client, params);
  const byResult = client.getProtocolEra() === "modern" ? again : undefined;
  const asked = byResult === undefined ? listened : withCapabilities(listened, byResult, server);
  const send = async (given: JsonObject) =>
    await client.request(
      { method, params: { ...asked, ...given } },
      ACCEPT_ALL,
      {
        signal: stop.signal,
        timeout: NO_TIMEOUT_MS,
        allowInputRequired: true,
        ...mirrorsArguments(client) ? { headers } : {},
        ...progress === undefined ? {} : {
          onprogress(report) {
            count();
            progress({ ...report } as JsonObject);
          },
        },
      },
    ) as Json;
  try {
    if (byResult?.responses !== undefined) answers.hide(secretsGiven(byResult.responses));
    let given = byResult === undefined ? {} : givenAgain(byResult);
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const answer = await send(given);
      count();
      if (!wantsInput(answer)) return answer;
      const wanted = readInput(answer);
      if (byResult !== undefined && !isOurs(wanted, server)) return toCaller(wanted, server);
      given = await answerInput(wanted, { asker, answers });
      if (wanted.requests.length === 0) await sleep(clock, PACE_MS, stop.signal);
    }
    throw new InputRefused(`${what} wanted more ${MAX_ROUNDS} times before it answers`);
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

class CallTimeout extends OutcomeUnknown {}
