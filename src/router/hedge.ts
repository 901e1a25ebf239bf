import { Aborter, type AbortLike } from "../core/abort.ts";
import type { Clock } from "../core/clock.ts";
import { HubError } from "../core/error.ts";
import type { Attempt } from "./attempt.ts";

/** One of two tries at the same time: it ends with the client, or when the other one has answered. */
export class Arm {
  readonly signal = new Aborter();
  /** The try while it has neither answered nor failed. */
  attempt: Attempt | null = null;
  /** The other one has answered. */
  lost = false;
  readonly #client: AbortLike;
  readonly #onLeave = () => this.signal.abort(this.#client.reason);

  constructor(client: AbortLike) {
    this.#client = client;
    if (client.aborted) this.#onLeave();
    else client.addEventListener("abort", this.#onLeave, { once: true });
  }

  /** Ends the try at once. */
  stop(reason: HubError): void {
    this.lost = true;
    this.release();
    this.attempt?.cancel(reason);
    this.signal.abort(reason);
  }

  /** Hears no more of the client. */
  release(): void {
    this.#client.removeEventListener("abort", this.#onLeave);
  }
}

/** What a race is made of. A try gives its answer, or null when it failed and another may do better. */
export interface Race<T> {
  clock: Clock;
  client: AbortLike;
  delayMs: number;
  first(arm: Arm): Promise<T | null>;
  /** Called when the delay is over; null when nobody else can be asked. */
  second(arm: Arm): Promise<T | null> | null;
  /** Called for a try that is about to be stopped because the other one has answered or the race is over. */
  onLost(attempt: Attempt): void;
}

/**
 * Asks a second target when the first has not answered in time; the first answer wins, and the other try is stopped at
 * once. Null when both failed; rejects with what no other target would do better.
 */
export function race<T extends { cancel(reason: HubError): void }>(race: Race<T>) {
  const { clock, client } = race;
  const lost = () => new HubError("aborted", "Another target answered first");
  return new Promise<T | null>((resolve, reject) => {
    const arms = [new Arm(client)];
    let running = 0;
    let over = false;
    const end = (winner: Arm | null) => {
      over = true;
      clock.clearTimer(timer);
      for (const arm of arms) {
        if (arm === winner) continue;
        if (arm.attempt !== null) race.onLost(arm.attempt);
        arm.stop(lost());
      }
    };
    const follow = (arm: Arm, answer: Promise<T | null>) => {
      running++;
      answer.then((answer) => {
        running--;
        // Both answered in the same turn.
        if (over) return answer?.cancel(lost());
        if (answer === null && running > 0) return;
        end(answer === null ? null : arm);
        resolve(answer);
      }, (error) => {
        running--;
        if (over) return;
        end(null);
        reject(error);
      });
    };
    const timer = clock.setTimer(() => {
      if (over) return;
      const arm = new Arm(client);
      const answer = race.second(arm);
      if (answer === null) return arm.release();
      arms.push(arm);
      follow(arm, answer);
    }, race.delayMs);
    const [first] = arms;
    if (first !== undefined) follow(first, race.first(first));
  });
}
