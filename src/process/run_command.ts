import { type Clock, doneWithin } from "../core/clock.ts";
import { endGroup } from "./end_group.ts";
import { OutputBuffer } from "./output_buffer.ts";
import { shellProgram } from "./shell_program.ts";
import { EXIT_WORDS, SUPERVISE } from "./supervise.ts";

/** A program to run to its end. */
export interface CommandCall {
  /** The program and its arguments. */
  argv: readonly string[];
  /** The whole environment. */
  env: Record<string, string>;
  timeoutMs: number;
  /** Kept of stdout, and as much of stderr. */
  maxOutputBytes: number;
  /** Called with what it writes, as it comes. */
  onOutput(chunk: Uint8Array, stream: OutputStream): void;
  signal: AbortSignal;
  clock: Clock;
}

/** Where a program writes to. */
export type OutputStream = "stdout" | "stderr";

/** How a program ended. */
export interface CommandResult {
  /** Null when it was ended. */
  exitCode: number | null;
  /** Why it was ended: its time was over, or it wrote without end. */
  ended: "timeout" | "output" | null;
  stdout: string;
  stderr: string;
}

/** Tenths of a second that a program gets to end by itself, and again after SIGTERM. */
const GRACE = 2;
const GRACE_MS = 100 * GRACE;
/** What is read of a program that writes without end, as a multiple of what is kept. */
const READ_TIMES = 64;

/** The supervisor's last words are shorter. */
const LAST_CHARS = 64;

type Reader = ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>;

/**
 * Runs a program with nothing to read; see `SUPERVISE`: it and all that it started end with the call, with its time,
 * with the signal, and with the hub, however that ends. Rejects with the signal's reason when all of them are gone.
 */
export async function runCommand(call: CommandCall): Promise<CommandResult> {
  const { argv, env, clock, signal, maxOutputBytes } = call;
  signal.throwIfAborted();
  const start = String(clock.now());
  const child = new Deno.Command(shellProgram(), {
    args: ["-c", SUPERVISE, "sh", String(GRACE), start, ...argv],
    env,
    clearEnv: true,
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
    detached: true,
  }).spawn();
  // As long as this is open, the hub is there and wants the program to go on.
  const line = child.stdin.getWriter();
  let ended: CommandResult["ended"] = null;
  let stop: Promise<void> | null = null;
  const end = () =>
    stop ??= (async () => {
      await line.close().catch(() => {});
      if (await doneWithin(clock, 5 * GRACE_MS, child.status)) return;
      await endGroup({ pid: child.pid, start });
    })();
  const timer = clock.setTimer(() => {
    ended ??= "timeout";
    void end();
  }, call.timeoutMs);
  signal.addEventListener("abort", end, { once: true });
  const buffers = {
    stdout: new OutputBuffer(maxOutputBytes),
    stderr: new OutputBuffer(maxOutputBytes),
  };
  let last = "";
  const read = async (reader: Reader, stream: OutputStream) => {
    for (let step = await reader.read(); !step.done; step = await reader.read()) {
      buffers[stream].add(step.value);
      if (stream === "stderr") {
        last = (last + new TextDecoder().decode(step.value)).slice(-LAST_CHARS);
        // A program that ends at once may do so before its supervisor listens to its signal.
        if (EXIT_WORDS.test(last)) void line.close().catch(() => {});
      }
      call.onOutput(step.value, stream);
      if (buffers[stream].bytes <= READ_TIMES * maxOutputBytes) continue;
      ended ??= "output";
      void end();
    }
  };
  try {
    const readers = [child.stdout.getReader(), child.stderr.getReader()] as const;
    const reading = Promise.all([read(readers[0], "stdout"), read(readers[1], "stderr")]);
    await child.status;
    // A process that got away may hold them open for ever.
    if (!await doneWithin(clock, 5 * GRACE_MS, reading)) {
      await Promise.all(readers.map((reader) => reader.cancel()));
    }
    await reading;
    signal.throwIfAborted();
    const stderr = buffers.stderr.text();
    const words = EXIT_WORDS.exec(stderr);
    return {
      exitCode: ended === null && words !== null ? Number(words[1]) : null,
      ended,
      stdout: buffers.stdout.text(),
      stderr: words === null ? stderr : stderr.slice(0, words.index),
    };
  } finally {
    clock.clearTimer(timer);
    signal.removeEventListener("abort", end);
    await end();
  }
}
