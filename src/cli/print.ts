import { visibleText } from "../core/visible_text.ts";

const encoder = new TextEncoder();
const outputGone = new AbortController();

/** Aborts when stdout or stderr has lost its reader, as with `loophub schema | head -1`; what is written then is dropped. */
export const readerGone: AbortSignal = outputGone.signal;

/** Writes text to stdout as it is. */
export function printRaw(text: string): void {
  writeAll(Deno.stdout, text);
}

/** Writes a line to stdout. */
export function print(line: string): void {
  printRaw(`${line}\n`);
}

/** Writes a line with texts of others to stdout: what a person would not see in it, or what steers a terminal, is an escape. */
export function printText(line: string): void {
  print(visibleText(line));
}

/** Writes a line to stderr. */
export function printError(line: string): void {
  writeAll(Deno.stderr, `${line}\n`);
}

/** Writes text to stderr as it is. */
export function printErrorRaw(text: string): void {
  writeAll(Deno.stderr, text);
}

function writeAll(file: { writeSync(bytes: Uint8Array): number }, text: string): void {
  let bytes = encoder.encode(text);
  try {
    while (bytes.length > 0) bytes = bytes.subarray(file.writeSync(bytes));
  } catch (error) {
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
    outputGone.abort();
  }
}
