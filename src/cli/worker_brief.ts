import type { LoadedConfig } from "../config/load.ts";

/** What a worker is told by its parent: one JSON line on standard input, whose end says that the parent is gone. */
export interface WorkerBrief {
  /** Counts from 1; a worker that is started again keeps its number. */
  number: number;
  /** The parent's configuration, so that all workers have the same, with the port and the Postgres that were found. */
  loaded: LoadedConfig;
}

const READY = "loophub worker listens on ";

/** The line that says that a worker takes requests at this address. */
export function readyLine(url: string): string {
  return READY + url;
}

/** The address in a worker's line; null for any other line. */
export function readUrl(line: string): string | null {
  return line.startsWith(READY) ? line.slice(READY.length) : null;
}

/** The brief as its line. */
export function writeBrief(brief: WorkerBrief): string {
  return `${JSON.stringify(brief)}\n`;
}

/** Reads the brief; `onEnd` is called when the parent is gone. Throws when that comes before the brief does. */
export async function readBrief(
  stdin: ReadableStream<Uint8Array<ArrayBuffer>>,
  onEnd: () => void,
): Promise<WorkerBrief> {
  const reader = stdin.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!text.endsWith("\n")) {
    const { value, done } = await reader.read();
    if (done) throw new Error("The parent ended before it said what this worker is for");
    text += value;
  }
  void reader.read().then(onEnd, onEnd);
  return JSON.parse(text) as WorkerBrief;
}
