import { Aborter, type AbortLike } from "../core/abort.ts";
import { type Clock, doneWithin } from "../core/clock.ts";
import { HubError, toHubError } from "../core/error.ts";
import type { AnswerKeeper } from "./answer_keeper.ts";
import { toKeptError } from "./kept_error.ts";
import type { AnswerHead, SharedAnswer } from "./shared_answer.ts";

/** An answer that a provider has begun. */
export interface BegunAnswer {
  head: AnswerHead;
  /** Why what was read is no whole answer, though it ended well for its readers; null while it is one. */
  readonly failure: HubError | null;
  /** The next bytes, which nobody changes any more; null at the end. */
  read(): Promise<Uint8Array | null>;
  /** Stops the provider. */
  cancel(reason: HubError): void;
}

/** How an answer is asked for and kept. */
export interface DriveOptions {
  begin(signal: AbortLike): Promise<BegunAnswer>;
  keeper: AnswerKeeper;
  clock: Clock;
  /** Aborts when the hub ends. */
  ending: AbortLike;
}

/** The longest wait for the word that nobody follows an answer elsewhere, before its provider is stopped. */
const LEAVE_MS = 200;

/**
 * Asks for an answer and hands it to its readers and to its keeper. When all readers here have left it is stopped, and
 * its key is free again, unless somebody waits for it on another replica. Resolves when nothing of it goes on.
 */
export async function driveAnswer(
  shared: SharedAnswer,
  { begin, keeper, clock, ending }: DriveOptions,
): Promise<void> {
  if (shared.isIdle) return await free(keeper);
  const aborter = new Aborter();
  let begun: BegunAnswer | null = null;
  let leaving: Promise<void> = Promise.resolve();
  const stop = () => {
    const left = new HubError("client_closed", "The client left");
    shared.stop();
    aborter.abort(left);
    begun?.cancel(left);
  };
  ending.addEventListener("abort", stop);
  const leave = async () => {
    let followed = false;
    const asked = keeper.release({ unlessFollowed: true }).then((is) => followed = is);
    const isTold = await doneWithin(clock, LEAVE_MS, asked);
    if (followed) shared.drain();
    else stop();
    if (isTold) return;
    // The word came too late: whoever waits elsewhere asks anew.
    await asked;
    await keeper.release({ unlessFollowed: false });
  };
  const leaveIfIdle = (followed: boolean) => {
    if (shared.isIdle && !followed) leaving = leaving.then(leave);
  };
  keeper.onSaved = leaveIfIdle;
  shared.onIdle(() => leaving = leaving.then(leave));
  try {
    begun = await begin(aborter);
    if (aborter.aborted) begun.cancel(toHubError(aborter.reason));
    shared.begin(begun.head);
    keeper.begin({ status: 200, response: { ...begun.head } });
    for (;;) {
      // An answer that is too large has nobody left who could read it elsewhere.
      if (shared.isOverflown && shared.isIdle) stop();
      if (!await shared.demand()) throw toHubError(aborter.reason);
      const bytes = await begun.read();
      if (bytes === null) break;
      shared.push(bytes);
      keeper.push(bytes);
    }
    keeper.onSaved = null;
    shared.end();
    if (begun.failure === null) keeper.finish();
    else {
      shared.forget();
      leaving = leaving.then(() => free(keeper));
    }
  } catch (error) {
    const failure = toHubError(error);
    const kept = toKeptError(failure);
    if (kept === null) leaving = leaving.then(() => free(keeper));
    else {
      keeper.begin(kept);
      keeper.finish();
    }
    shared.fail(failure);
  } finally {
    ending.removeEventListener("abort", stop);
  }
  await keeper.done;
  await leaving;
}

async function free(keeper: AnswerKeeper): Promise<void> {
  await keeper.release({ unlessFollowed: false });
}
