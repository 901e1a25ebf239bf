import { type Clock, doneWithin } from "../core/clock.ts";
import { HubError } from "../core/error.ts";
import { joinBytes } from "../core/join_bytes.ts";
import { shellProgram } from "./shell_program.ts";
import { WATCH } from "./supervise.ts";

/** A shell script that is fixed: what differs between two runs of it are its arguments and its input. */
export interface ScriptCall {
  script: string;
  args: readonly string[];
  /** The whole environment. */
  env: Record<string, string>;
  /** What the script reads; nothing when left out. */
  input?: Uint8Array;
  /** Program and arguments that the shell runs in, such as a sandbox; none when left out. */
  within?: readonly string[];
  /** What it may write to stdout; it is ended when it writes more. */
  maxBytes: number;
  timeoutMs: number;
  signal: AbortSignal;
  clock: Clock;
}

/** How a script ended. */
export interface ScriptResult {
  code: number;
  stdout: Uint8Array;
  /** The last of what it wrote to stderr. */
  stderr: string;
  /** True when it had more to say than it may. */
  isCut: boolean;
}

/**
 * `sh` is the only program that the hub has to be allowed to run; what else there is, it starts. A script that has its
 * input notices by it that the hub is gone; any other is watched.
 */
const START = 'exec "$@"';
const MAX_STDERR = 2000;
/** Time that the streams of a program that was ended get to close. */
const CLOSE_MS = 1000;

/**
 * Runs a script to its end with its output held in memory. Rejects with the signal's reason, and with `aborted` when
 * it takes too long; it is ended then, and when the hub ends, however that goes.
 */
export async function runScript(call: ScriptCall): Promise<ScriptResult> {
  const { script, args, env, input, within = [], clock, signal } = call;
  signal.throwIfAborted();
  const isWatched = input === undefined;
  const child = new Deno.Command(shellProgram(), {
    args: ["-c", isWatched ? WATCH : START, "sh", ...within, "sh", "-c", script, "sh", ...args],
    env,
    clearEnv: true,
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
    detached: isWatched,
  }).spawn();
  const line = child.stdin.getWriter();
  const end = () => {
    if (isWatched) void line.close().catch(() => {});
    else kill(child);
  };
  let late: unknown = null;
  const endFor = (reason: unknown) => {
    late ??= reason;
    end();
  };
  const onAbort = () => endFor(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  const timer = clock.setTimer(
    () => endFor(new HubError("aborted", `It did not end within ${call.timeoutMs} ms`)),
    call.timeoutMs,
  );
  try {
    const readers = [child.stdout.getReader(), child.stderr.getReader()] as const;
    const writing = isWatched ? Promise.resolve() : write(line, input);
    const reading = Promise.all([
      readUpTo(readers[0], { maxBytes: call.maxBytes, onMore: end }),
      readTail(readers[1]),
    ]);
    const { code } = await child.status;
    if (!await doneWithin(clock, CLOSE_MS, reading)) {
      await Promise.all(readers.map((reader) => reader.cancel()));
    }
    await writing;
    const [{ bytes, isCut }, stderr] = await reading;
    if (late !== null) throw late;
    return { code, stdout: bytes, stderr, isCut };
  } finally {
    clock.clearTimer(timer);
    signal.removeEventListener("abort", onAbort);
    await line.close().catch(() => {});
  }
}

function kill(child: Deno.ChildProcess): void {
  try {
    child.kill("SIGKILL");
  } catch {
    // It has ended.
  }
}

async function write(
  line: WritableStreamDefaultWriter<Uint8Array>,
  input: Uint8Array,
): Promise<void> {
  try {
    await line.write(input);
    await line.close();
  } catch {
    // A script that found something wrong does not read.
  }
}

type Reader = ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>;

async function readUpTo(
  reader: Reader,
  { maxBytes, onMore }: { maxBytes: number; onMore(): void },
): Promise<{ bytes: Uint8Array; isCut: boolean }> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for (let step = await reader.read(); !step.done; step = await reader.read()) {
    if (bytes > maxBytes) continue;
    bytes += step.value.length;
    chunks.push(step.value);
    if (bytes > maxBytes) onMore();
  }
  return { bytes: joinBytes(chunks).subarray(0, maxBytes), isCut: bytes > maxBytes };
}

async function readTail(reader: Reader): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for (let step = await reader.read(); !step.done; step = await reader.read()) {
    text = (text + decoder.decode(step.value, { stream: true })).slice(-MAX_STDERR);
  }
  return text;
}
