/** At this many repeats a call is answered without running. */
export const REPEATS_TO_REFUSE = 3;
/** At this many repeats the next step is the last one. */
export const REPEATS_TO_CONCLUDE = 5;

const LONGEST_PERIOD = 3;

/** Notices a model that goes in circles: the same calls again and again, with a period of one to three steps. */
export class RepeatDetector {
  readonly #steps: string[] = [];

  /**
   * Takes the calls of one step, each as tool name and canonical arguments in one text, calls of polling tools left
   * out. Gives how often the last one to three steps have now come in a row, at least 1; 0 for a step without calls
   * to look at, which also ends a row.
   */
  observe(calls: readonly string[]): number {
    if (calls.length === 0) {
      this.#steps.length = 0;
      return 0;
    }
    this.#steps.push(JSON.stringify([...calls].sort()));
    let most = 1;
    for (let period = 1; period <= LONGEST_PERIOD; period++) {
      most = Math.max(most, this.#rowOf(period));
    }
    return most;
  }

  #rowOf(period: number): number {
    const steps = this.#steps;
    let same = 0;
    for (let at = steps.length - 1 - period; at >= 0; at--) {
      if (steps[at] !== steps[at + period]) break;
      same++;
    }
    return 1 + Math.floor(same / period);
  }
}
