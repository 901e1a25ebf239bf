import type { HubEvent } from "./event.ts";
import { questionEvent, readQuestion, type RunQuestion } from "./run_question.ts";

/** Which questions of a run are open, by what its log says. */
export class OpenQuestions {
  readonly #open = new Map<string, RunQuestion>();

  /** The events that must come before this one: no call ends with a question of it open. */
  before(event: HubEvent): HubEvent[] {
    const isOutput = event.type === "tool-output-available" && event.preliminary !== true ||
      event.type === "tool-output-error" || event.type === "tool-output-denied";
    return isOutput ? this.#closings((question) => question.toolCallId === event.toolCallId) : [];
  }

  /** What closes all of them. */
  closings(): HubEvent[] {
    return this.#closings(() => true);
  }

  /** Takes the next event of the run. */
  see(event: HubEvent): void {
    const question = event.type === "data" ? readQuestion(event) : null;
    if (question === null) return;
    const { state, ...asked } = question;
    if (state === "pending") this.#open.set(question.questionId, asked);
    else this.#open.delete(question.questionId);
  }

  #closings(isMeant: (question: RunQuestion) => boolean): HubEvent[] {
    return [...this.#open.values()].filter(isMeant)
      .map((question) => questionEvent(question, "cancelled"));
  }
}
