import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { type Clock, doneWithin } from "../core/clock.ts";
import { endGroup, type ProcessGroup } from "../process/end_group.ts";
import { shellProgram } from "../process/shell_program.ts";
import { EXIT_WORDS, SUPERVISE } from "../process/supervise.ts";
import type { Lifeline } from "./lifeline.ts";

/** Longest line of a server, and longest frame of a stream, in bytes. */
export const MAX_FRAME_BYTES = 16 * 1024 * 1024;
/** Characters that are kept of what a server writes to stderr. */
const MAX_STDERR = 4096;
const LINE_FEED = 10;
/** How long the supervisor's last words may still be on their way when somebody else holds the output. */
const LAST_WORDS_MS = 2000;

type Reader = ReadableStreamDefaultReader<Uint8Array>;

/** How a server is started. */
export interface StdioOptions {
  /** The program and its arguments. */
  argv: readonly string[];
  /** The whole environment: nothing of the hub's own comes with it. */
  env: Record<string, string>;
  cwd?: string;
  /** Time that it gets to end after its input has ended, and again after SIGTERM. */
  graceMs: number;
  /** Called with each whole line that is a message; throws for one that is none. */
  parse(text: string): JSONRPCMessage;
  /** Called with what the server writes to stderr, as it comes. */
  onStderr?(text: string): void;
  clock: Clock;
  /** Ends the server should the hub be killed. */
  lifeline: Lifeline;
  maxLineBytes?: number;
}

/**
 * Speaks to an MCP server that runs here. A shell supervises it: server and whatever it started end with the
 * transport and with the hub, also when the hub is killed; see `SUPERVISE`. Other lines on stdout than messages are
 * skipped, stderr is always read.
 */
export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #options: StdioOptions;
  #group: ProcessGroup | null = null;
  #input: WritableStreamDefaultWriter<Uint8Array> | null = null;
  #ended: Promise<void> = Promise.resolve();
  #closed = false;
  /** The hub has ended it while it ran. */
  #wasLeft = false;
  #stderr = "";
  #exitCode: number | null = null;
  readonly #lastWords = Promise.withResolvers<void>();
  #problem: string | null = null;

  constructor(options: StdioOptions) {
    this.#options = options;
  }

  /** Process id of the supervisor, which leads the group of the server. */
  get pid(): number | null {
    return this.#group?.pid ?? null;
  }

  /** The last of what the server wrote to stderr. */
  get stderr(): string {
    return this.#stderr;
  }

  /** Why it ended, when it ended by itself. */
  get ending(): string | null {
    if (this.#problem !== null) return this.#problem;
    // One that goes along with its input has not failed: whatever the hub left it for is the reason.
    if (this.#exitCode === null || this.#exitCode === 0 && this.#wasLeft) return null;
    const last = this.#stderr.trim().split("\n").slice(-3).join(" / ").slice(-300);
    const words = this.#exitCode === 127 || this.#exitCode === 126
      ? "the program could not be started"
      : `the program ended with code ${this.#exitCode}`;
    return last === "" ? words : `${words}: ${last}`;
  }

  /** Starts the program. Rejects when it cannot be started. */
  start(): Promise<void> {
    return new Promise((resolve) => {
      this.#spawn();
      resolve();
    });
  }

  #spawn(): void {
    const { argv, env, cwd, graceMs, clock, lifeline } = this.#options;
    const grace = String(Math.ceil(graceMs / 100));
    const start = String(clock.now());
    const child = new Deno.Command(shellProgram(), {
      args: ["-c", SUPERVISE, "sh", grace, start, ...argv],
      env,
      clearEnv: true,
      ...(cwd === undefined ? {} : { cwd }),
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
      detached: true,
    }).spawn();
    this.#group = { pid: child.pid, start };
    lifeline.hold(this.#group);
    this.#input = child.stdin.getWriter();
    this.#ended = this.#watch(child);
  }

  async send(message: JSONRPCMessage): Promise<void> {
    if (this.#input === null || this.#closed) throw new Error("The server is not running");
    await this.#input.write(new TextEncoder().encode(`${JSON.stringify(message)}\n`));
  }

  /** Resolves when the server and all it started are gone. */
  async close(): Promise<void> {
    this.#wasLeft ||= this.#exitCode === null;
    void this.#closeInput();
    const { clock, graceMs } = this.#options;
    if (await doneWithin(clock, 3 * graceMs, this.#ended)) return;
    // A server that reads nothing keeps the supervisor from hearing of the end of its input.
    do {
      // Where no process can be started just now, the next time comes.
      if (this.#group !== null) await endGroup(this.#group).catch(() => {});
    } while (!await doneWithin(clock, graceMs, this.#ended));
  }

  async #closeInput(): Promise<void> {
    const input = this.#input;
    this.#input = null;
    // A server that is gone has closed the pipe already.
    await input?.close().catch(() => {});
  }

  async #watch(child: Deno.ChildProcess): Promise<void> {
    const { clock, graceMs, lifeline } = this.#options;
    const [stdout, stderr] = [child.stdout.getReader(), child.stderr.getReader()];
    const read = Promise.all([this.#readOutput(stdout), this.#readErrors(stderr)]);
    await child.status;
    // A process that left the group and took its mark away may hold them open for ever.
    if (!await doneWithin(clock, graceMs, read)) {
      await doneWithin(clock, LAST_WORDS_MS, this.#lastWords.promise);
      await Promise.all([stdout.cancel(), stderr.cancel()]);
    }
    await read;
    if (this.#group !== null) lifeline.release(this.#group);
    this.#closed = true;
    await this.#closeInput();
    this.onclose?.();
  }

  async #readOutput(reader: Reader): Promise<void> {
    const most = this.#options.maxLineBytes ?? MAX_FRAME_BYTES;
    let held: Uint8Array[] = [];
    let bytes = 0;
    for await (const chunk of chunksOf(reader)) {
      // What a server still sends that is being ended is read and dropped.
      if (this.#problem !== null) continue;
      let from = 0;
      for (let at = chunk.indexOf(LINE_FEED); at >= 0; at = chunk.indexOf(LINE_FEED, from)) {
        held.push(chunk.subarray(from, at));
        const isNews = this.#takeLine(held, bytes + at - from);
        // The client looks at news a moment later, and at a result at once: progress must not come behind it.
        if (isNews) await settle();
        held = [];
        bytes = 0;
        from = at + 1;
      }
      bytes += chunk.length - from;
      if (bytes > most) {
        this.#problem = `the server sent a line of more than ${most} bytes`;
        held = [];
        void this.close();
        continue;
      }
      if (from < chunk.length) held.push(chunk.subarray(from));
    }
  }

  #takeLine(parts: Uint8Array[], bytes: number): boolean {
    if (this.#problem !== null) return false;
    const line = new Uint8Array(bytes);
    let at = 0;
    for (const part of parts) {
      line.set(part, at);
      at += part.length;
    }
    const text = new TextDecoder().decode(line).trim();
    if (!text.startsWith("{")) return false;
    let message: JSONRPCMessage;
    try {
      message = this.#options.parse(text);
    } catch (error) {
      this.onerror?.(error instanceof Error ? error : new Error(String(error)));
      return false;
    }
    this.onmessage?.(message);
    return !("id" in message);
  }

  async #readErrors(reader: Reader): Promise<void> {
    const decoder = new TextDecoder();
    for await (const chunk of chunksOf(reader)) {
      const text = decoder.decode(chunk, { stream: true });
      this.#options.onStderr?.(text);
      this.#stderr = (this.#stderr + text).slice(-MAX_STDERR);
      const exit = EXIT_WORDS.exec(this.#stderr);
      if (exit === null) continue;
      this.#exitCode = Number(exit[1]);
      this.#stderr = this.#stderr.slice(0, exit.index);
      this.#lastWords.resolve();
      // A server that ended before its supervisor could hear of it: that waits for the end of its input only.
      void this.#closeInput();
    }
  }
}

async function settle(): Promise<void> {
  for (let at = 0; at < 4; at++) await Promise.resolve();
}

async function* chunksOf(reader: Reader): AsyncGenerator<Uint8Array> {
  for (let step = await reader.read(); !step.done; step = await reader.read()) yield step.value;
}
