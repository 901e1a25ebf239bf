import { type Compaction, readCompaction, readDropped } from "../core/context_events.ts";
import type { ModelMessage } from "../core/model.ts";
import type { UIMessage } from "../core/ui_message.ts";
import { toUnits, type Unit } from "./history_to_model.ts";
import { repairHistory } from "./repair_history.ts";
import type { LeftOut } from "./tool_result_text.ts";

/** Stands before the summary of what a conversation began with. */
export const SUMMARY_HEAD =
  "The conversation before this point grew too long and was replaced by this summary of it:";

/** What was done to a conversation so far. */
export interface Shape {
  leftOut: ReadonlyMap<string, LeftOut>;
  /** The latest summary, and from where on the conversation is read as it is. */
  summary: { text: string; from: { messageId: string; step: number } } | null;
}

/** A conversation as its next request reads it. */
export interface View {
  /** What nobody may take away: the system prompt and the summary. */
  head: ModelMessage[];
  /** The words of the user that the summary is about to answer: the last ones before `units`. */
  words: ModelMessage[];
  units: Unit[];
}

/** A conversation that may grow too long: what it is read as depends on its messages alone, whoever reads it. */
export class Conversation {
  readonly #system: readonly ModelMessage[];
  readonly #history: readonly UIMessage[];
  readonly #toWire: (toolName: string) => string;

  constructor(options: {
    system: readonly ModelMessage[];
    history: readonly UIMessage[];
    toWire: (toolName: string) => string;
  }) {
    this.#system = options.system;
    this.#history = options.history;
    this.#toWire = options.toWire;
  }

  /** What was done to it, by its own parts. */
  shape(inFlight: UIMessage): Shape {
    const leftOut = new Map<string, LeftOut>();
    let summary: Shape["summary"] = null;
    for (const part of [...this.#history, inFlight].flatMap(({ parts }) => parts)) {
      if (part.type !== "data") continue;
      for (const id of readDropped(part)) leftOut.set(id, "dropped");
      const compaction = readCompaction(part);
      for (const id of compaction?.pruned ?? []) leftOut.set(id, "pruned");
      const { summary: text, from } = compaction ?? {};
      if (text !== undefined && from !== undefined) summary = { text, from };
    }
    return { leftOut, summary };
  }

  /** How it is read, with what was done to it or with what may be. */
  view(inFlight: UIMessage, shape: Shape = this.shape(inFlight)): View {
    const { leftOut, summary } = shape;
    const all = toUnits([...this.#history, inFlight], { toWire: this.#toWire, leftOut });
    const at = summary === null ? -1 : all.findIndex((unit) => isAt(unit, summary.from));
    // What the summary goes up to may have been superseded since: then nothing of it holds.
    if (summary === null || at === -1) return { head: [...this.#system], words: [], units: all };
    const before = all.slice(0, at);
    const system = before.filter(({ role }) => role === "system");
    return {
      head: [...this.#system, ...system.flatMap(({ messages }) => messages), told(summary.text)],
      words: lastWords(before),
      units: all.slice(at),
    };
  }

  /** The messages of the next request. */
  messages(inFlight: UIMessage, shape?: Shape): ModelMessage[] {
    const { head, words, units } = this.view(inFlight, shape);
    return repairHistory([...head, ...words, ...units.flatMap(({ messages }) => messages)]);
  }
}

/** The compactions of a message, in order. */
export function compactionsOf({ parts }: UIMessage): Compaction[] {
  return parts.flatMap((part) => part.type === "data" ? readCompaction(part) ?? [] : []);
}

function isAt(unit: Unit, place: { messageId: string; step: number }): boolean {
  return unit.messageId === place.messageId && unit.step === place.step;
}

function told(summary: string): ModelMessage {
  return { role: "user", content: [{ type: "text", text: `${SUMMARY_HEAD}\n\n${summary}` }] };
}

/** The last message of the user, and what the user said while it was answered: verbatim, whatever is summarised. */
function lastWords(before: readonly Unit[]): ModelMessage[] {
  const from = before.findLastIndex(({ role }) => role === "user");
  return before.slice(Math.max(0, from)).flatMap(({ messages }) =>
    messages.filter(({ role }) => role === "user")
  );
}
