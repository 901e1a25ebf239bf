import { createInterface, type Interface } from "node:readline";
import process from "node:process";
import { Writable } from "node:stream";
import { makeSafe } from "../../telemetry/make_safe.ts";
import { printError, printErrorRaw, printRaw } from "../print.ts";
import type { Screen } from "../show_event.ts";

/** Where a chat is shown, and where what people type comes from. */
export interface Terminal extends Screen {
  /** Whether a person sits before it. */
  readonly isInteractive: boolean;
  /**
   * The next line, or several that were pasted; null when there are no more. What is typed of a secret is not shown, and
   * not kept to be typed again. Rejects when the signal aborts.
   */
  next(prompt: string, signal?: AbortSignal, isSecret?: boolean): Promise<string | null>;
  close(): void;
}

/** What a terminal tells by itself. */
export interface TerminalEvents {
  /** Ctrl-C. */
  onInterrupt(): void;
  /** A line that nobody has asked for. */
  onLine(line: string): void;
}

/** What stays of control characters in text for people. */
const KEEPS = "\n\t";
const DIM = ["\x1b[2m", "\x1b[0m"] as const;
const CLEAR_LINE = "\r\x1b[K";
const HISTORY = 200;
const MAX_LINE_LENGTH = 1024 * 1024;

/** The terminal of this process, or its stdin and stdout where they are none. */
export function openTerminal(events: TerminalEvents): Terminal {
  return Deno.stdin.isTerminal() ? new LineEditor(events) : new Script();
}

/** Whether lines on stderr are coloured: no NO_COLOR, and a terminal. */
function hasColour(): boolean {
  return (Deno.env.get("NO_COLOR") ?? "") === "" && Deno.stderr.isTerminal();
}

/** Lines of others for people, which steer no terminal. */
function printSafe(line: string): void {
  const [on, off] = hasColour() ? DIM : ["", ""];
  printError(`${on}${makeSafe(line, { keeps: KEEPS })}${off}`);
}

/** Lines that people edit; what they type while nobody asks is told. */
class LineEditor implements Terminal {
  readonly isInteractive = true;
  readonly #lines: Interface;
  #asked: PromiseWithResolvers<string | null> | null = null;
  #pasted: string[] = [];
  #isOver = false;
  /** What is asked for is a secret: the editor shows nothing, its prompt neither. */
  #isHidden = false;
  #prompt = "";

  constructor({ onInterrupt, onLine }: TerminalEvents) {
    this.#lines = createInterface({
      input: process.stdin,
      output: new Shown(() => this.#isHidden),
      terminal: true,
      historySize: HISTORY,
      removeHistoryDuplicates: true,
    });
    this.#lines.setPrompt("");
    this.#lines.on("SIGINT", () => {
      if (this.#lines.line === "") return onInterrupt();
      this.#lines.write(null, { ctrl: true, name: "e" });
      this.#lines.write(null, { ctrl: true, name: "u" });
    });
    this.#lines.on("history", (history) => {
      if (this.#isHidden) history.shift();
    });
    this.#lines.on("close", () => {
      this.#isOver = true;
      this.#answer(null);
    });
    this.#lines.on("line", (line) => {
      // What is pasted comes at once, and is one text.
      if (this.#pasted.push(line) > 1) return;
      setTimeout(() => {
        const text = this.#pasted.splice(0).join("\n");
        if (this.#asked === null) onLine(text);
        else this.#answer(text);
      });
    });
  }

  async next(
    prompt: string,
    signal?: AbortSignal,
    isSecret = false,
  ): Promise<string | null> {
    signal?.throwIfAborted();
    if (this.#isOver) return null;
    const asked = Promise.withResolvers<string | null>();
    this.#asked = asked;
    const onAbort = () => {
      if (this.#asked === asked) this.#asked = null;
      printErrorRaw(CLEAR_LINE);
      asked.reject(signal?.reason);
    };
    signal?.addEventListener("abort", onAbort, { once: true });
    this.#prompt = makeSafe(prompt);
    this.#lines.setPrompt(this.#prompt);
    this.#isHidden = isSecret;
    this.#ask();
    try {
      return await asked.promise;
    } finally {
      if (isSecret) printErrorRaw("\n");
      this.#isHidden = false;
      this.#lines.setPrompt("");
      signal?.removeEventListener("abort", onAbort);
    }
  }

  printRaw(text: string): void {
    printRaw(text);
  }

  printError(line: string): void {
    if (this.#asked === null) return printSafe(line);
    printErrorRaw(CLEAR_LINE);
    printSafe(line);
    this.#ask();
  }

  #ask(): void {
    if (this.#isHidden) printErrorRaw(this.#prompt);
    else this.#lines.prompt(true);
  }

  close(): void {
    this.#lines.close();
  }

  #answer(line: string | null): void {
    const asked = this.#asked;
    this.#asked = null;
    asked?.resolve(line);
  }
}

/** Where the line editor writes: to stderr, but for what is hidden. */
class Shown extends Writable {
  readonly #isHidden: () => boolean;

  constructor(isHidden: () => boolean) {
    super();
    this.#isHidden = isHidden;
  }

  /** How wide lines may be. */
  get columns(): number | undefined {
    return process.stderr.columns;
  }

  override _write(piece: Uint8Array, _encoding: string, done: () => void): void {
    if (!this.#isHidden()) process.stderr.write(piece);
    done();
  }
}

/** Lines of a file or a pipe, read when they are asked for. */
class Script implements Terminal {
  readonly isInteractive = false;
  readonly #lines = readLines(Deno.stdin.readable);
  #reading: Promise<IteratorResult<string, void>> | null = null;

  async next(_prompt: string, signal?: AbortSignal): Promise<string | null> {
    signal?.throwIfAborted();
    this.#reading ??= this.#lines.next();
    const left = Promise.withResolvers<never>();
    const onAbort = () => left.reject(signal?.reason);
    signal?.addEventListener("abort", onAbort, { once: true });
    try {
      const read = await Promise.race([this.#reading, left.promise]);
      this.#reading = null;
      return read.done === true ? null : read.value;
    } finally {
      signal?.removeEventListener("abort", onAbort);
    }
  }

  printRaw(text: string): void {
    printRaw(text);
  }

  printError(line: string): void {
    printSafe(line);
  }

  close(): void {}
}

/** Lines without their ends. Throws past a bound. */
async function* readLines(
  bytes: ReadableStream<Uint8Array<ArrayBuffer>>,
): AsyncGenerator<string, void, void> {
  let rest = "";
  for await (const text of bytes.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    if (rest.length > MAX_LINE_LENGTH) {
      throw new Error(
        `A line of the input is longer than the ${MAX_LINE_LENGTH} characters allowed`,
      );
    }
    for (const line of lines) yield line.replace(/\r$/, "");
  }
  if (rest !== "") yield rest;
}
