import type { SequencedEvent } from "../../src/core/event.ts";

/** The events of a run's stream, as its text came over the wire. */
export const logOf = (text: string): SequencedEvent[] =>
  [...text.matchAll(/^id: (\d+)\ndata: ([^\n]*)\n\n/gm)].map(([, seq, data]) => ({
    seq: Number(seq),
    event: JSON.parse(data ?? ""),
  }));
