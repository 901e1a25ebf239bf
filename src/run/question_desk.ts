import { toHubError } from "../core/error.ts";
import type { JsonObject } from "../core/json.ts";
import type { Log } from "../core/log.ts";
import type { GivenAnswer, Questions } from "../inference/agent_run.ts";
import type { Database } from "../store/database.ts";
import type { MasterKey } from "../store/master_key.ts";
import {
  answerPlace,
  expireQuestions,
  type QuestionKey,
  readAnswers,
  type TakenAnswer,
} from "../store/questions.ts";
import type { RunKey } from "../store/runs.ts";
import { openSecret } from "../store/secret_box.ts";

interface Waiting {
  key: QuestionKey;
  settle(given: GivenAnswer): void;
}

/** What calls of runs that are driven here have asked people: looked at when there is a hint, and once a second. */
export class QuestionDesk {
  readonly #options: { db: Database; key: MasterKey; log: Log; timeoutMs: number };
  readonly #waiting = new Map<string, Waiting>();
  #closed = false;

  constructor(options: { db: Database; key: MasterKey; log: Log; timeoutMs: number }) {
    this.#options = options;
  }

  /** Whoever answers what the calls of a run ask. */
  of(run: RunKey): Questions {
    return {
      timeoutMs: this.#options.timeoutMs,
      answerTo: (questionId, signal) => this.#answerTo({ ...run, questionId }, signal),
    };
  }

  /** Looks whether questions of these runs were answered; of all when left out. Never rejects. */
  async check(runIds?: Iterable<string>): Promise<void> {
    const runs = runIds === undefined ? null : new Set(runIds);
    const keys = [...this.#waiting.values()].map(({ key }) => key)
      .filter(({ runId }) => runs === null || runs.has(runId));
    if (keys.length === 0) return;
    const { db, log } = this.#options;
    try {
      await expireQuestions(db, keys);
      for (const [questionId, taken] of await readAnswers(db, keys)) {
        const waiting = this.#waiting.get(questionId);
        waiting?.settle(await this.#open(waiting.key, taken));
      }
    } catch (error) {
      log.warn("Answers to questions of runs were not read", { error: toHubError(error) });
    }
  }

  /** Asks nobody any more: calls that wait go on, rather than end in doubt with this replica. */
  close(): void {
    this.#closed = true;
    for (const { settle } of this.#waiting.values()) settle({ state: "cancelled" });
  }

  #answerTo(key: QuestionKey, signal: AbortSignal): Promise<GivenAnswer> {
    const { questionId } = key;
    const { promise, resolve } = Promise.withResolvers<GivenAnswer>();
    const onAbort = () => settle({ state: "cancelled" });
    const settle = (given: GivenAnswer) => {
      signal.removeEventListener("abort", onAbort);
      this.#waiting.delete(questionId);
      resolve(given);
    };
    this.#waiting.set(questionId, { key, settle });
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted || this.#closed) onAbort();
    return promise;
  }

  async #open(key: QuestionKey, { state, content }: TakenAnswer): Promise<GivenAnswer> {
    if (state !== "answered") return { state };
    if (content === null) return { state };
    try {
      const { key: masterKey } = this.#options;
      const text = await openSecret(content, { key: masterKey, place: answerPlace(key) });
      return { state, content: JSON.parse(text) as JsonObject };
    } catch (error) {
      const { log } = this.#options;
      log.error("An answer could not be opened", { questionId: key.questionId, error });
      return { state: "cancelled" };
    }
  }
}
