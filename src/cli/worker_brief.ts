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

/** What a worker says of a configuration that was loaded again: null when it took it over, or why it refuses it. */
export interface ReloadAnswer {
  refusal: string | null;
}

const ANSWER = "loophub worker answers ";

/** The line that answers a reload. There is one for each, in their order. */
export function answerLine(answer: ReloadAnswer): string {
  return ANSWER + JSON.stringify(answer);
}

/** The answer in a worker's line; null for any other line. */
export function readAnswer(line: string): ReloadAnswer | null {
  if (!line.startsWith(ANSWER)) return null;
  return JSON.parse(line.slice(ANSWER.length)) as ReloadAnswer;
}

/** The brief as its line. */
export function writeBrief(brief: WorkerBrief): string {
  return `${JSON.stringify(brief)}\n`;
}

/** A configuration that was loaded again, as its line. */
export function writeReload(loaded: LoadedConfig): string {
  return `${JSON.stringify(loaded)}\n`;
}

/**
 * Reads the brief. `onReload` is called with each configuration that comes later, `onEnd` when the parent is gone. Throws
 * when that comes before the brief does.
 */
export async function readBrief(
  stdin: ReadableStream<Uint8Array<ArrayBuffer>>,
  { onReload, onEnd }: { onReload(loaded: LoadedConfig): void; onEnd(): void },
): Promise<WorkerBrief> {
  const reader = stdin.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  const nextLine = async (): Promise<string | null> => {
    let end: number;
    while ((end = text.indexOf("\n")) === -1) {
      const { value, done } = await reader.read();
      if (done) return null;
      text += value;
    }
    const line = text.slice(0, end);
    text = text.slice(end + 1);
    return line;
  };
  const brief = await nextLine();
  if (brief === null) throw new Error("The parent ended before it said what this worker is for");
  const listen = async () => {
    for (let line = await nextLine(); line !== null; line = await nextLine()) {
      onReload(JSON.parse(line) as LoadedConfig);
    }
  };
  void listen().then(onEnd, onEnd);
  return JSON.parse(brief) as WorkerBrief;
}
