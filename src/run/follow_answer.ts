import type { Clock, Timer } from "../core/clock.ts";
import { HubError } from "../core/error.ts";
import type { Database } from "../store/database.ts";
import { type AnswerClaim, type AnswerLook, lookAtAnswer } from "../store/idempotency.ts";
import { fromKeptError } from "./kept_error.ts";
import { type AnswerHead, type SharedAnswer, tooLarge } from "./shared_answer.ts";

/** What following needs. */
export interface FollowAnswerOptions {
  db: Database;
  claim: AnswerClaim;
  clock: Clock;
  /** Headers of a kept error. */
  replayHeaders: Readonly<Record<string, string>>;
}

/** How often one replica looks for news of an answer that comes on another. */
const POLL_MS = 250;

/**
 * Hands an answer that another replica gets, or has got, to its readers here. Gives `free` when it never came and its
 * key is to be had; nothing was shown then.
 */
export async function followAnswer(
  shared: SharedAnswer,
  { db, claim, clock, replayHeaders }: FollowAnswerOptions,
): Promise<"over" | "free"> {
  const left = Promise.withResolvers<void>();
  shared.onIdle(() => {
    shared.stop();
    left.resolve();
  });
  let pieces = 0;
  let hasBegun = false;
  while (!shared.isIdle) {
    const look: AnswerLook | null = await lookAtAnswer(db, { ...claim, from: pieces });
    if (look === null || look.lapsed) {
      if (!hasBegun) return "free";
      throw new HubError(
        "lease_lost",
        "The replica that was getting this answer has lost it: ask again with the same key",
      );
    }
    if (look.state === "too_large") throw tooLarge();
    if (!hasBegun && look.head !== null) {
      const error = fromKeptError(look.head, replayHeaders);
      if (error !== null) throw error;
      shared.begin(look.head.response as unknown as AnswerHead);
      hasBegun = true;
    }
    for (const piece of look.pieces) {
      if (!await shared.demand()) return "over";
      shared.push(piece);
    }
    pieces += look.pieces.length;
    if (!look.complete) continue;
    if (look.state === "done") {
      shared.end();
      return "over";
    }
    let timer: Timer | null = null;
    const due = new Promise<void>((resolve) => timer = clock.setTimer(resolve, POLL_MS));
    await Promise.race([due, left.promise]);
    clock.clearTimer(timer);
  }
  return "over";
}
