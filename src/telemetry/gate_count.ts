import type { Clock } from "../core/clock.ts";
import type { GateTally, Refusal } from "../core/concurrency_gate.ts";
import type { Log } from "../core/log.ts";
import { LineBudget } from "./line_budget.ts";

/** Which gates are counted together: one of a target by its name, all of a kind without one. */
export interface GateLabels {
  gate: "hub" | "key" | "provider" | "model";
  name: string;
}

const LOG_EVERY_MS = 10_000;

/** Plain numbers until somebody scrapes, and one line in the log for all refusals of ten seconds. */
export class GateCount implements GateTally {
  readonly labels: GateLabels;
  inside = 0;
  waiting = 0;
  left = 0;
  full = 0;
  late = 0;
  readonly #log: Log;
  readonly #budget: LineBudget;
  #told = 0;

  constructor(labels: GateLabels, { clock, log }: { clock: Clock; log: Log }) {
    this.labels = labels;
    this.#log = log;
    this.#budget = new LineBudget(clock, { lines: 1, perMs: LOG_EVERY_MS });
  }

  refused(why: Refusal, subject: string): void {
    this[why]++;
    if (!this.#budget.take()) return;
    const refused = this.full + this.late;
    this.#log.warn("Requests are refused", {
      ...this.labels,
      last: subject,
      why,
      inside: this.inside,
      waiting: this.waiting,
      refused: refused - this.#told,
    });
    this.#told = refused;
  }
}
