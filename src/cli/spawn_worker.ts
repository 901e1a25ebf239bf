import { fileURLToPath } from "node:url";
import { shellProgram } from "../process/shell_program.ts";
import { printRaw } from "./print.ts";
import {
  readAnswer,
  readUrl,
  type ReloadAnswer,
  type WorkerBrief,
  writeBrief,
  writeReload,
} from "./worker_brief.ts";
import type { WorkerProcess } from "./worker_pool.ts";

const MAIN = fileURLToPath(new URL("../main.ts", import.meta.url));

/**
 * Starts a worker, in a process group of its own: a terminal's Ctrl-C reaches it through its parent. `sh` becomes the
 * worker, so that the hub needs no permission to run anything else, wherever its runtime lies.
 */
export function spawnWorker(brief: WorkerBrief, permissions: readonly string[]): WorkerProcess {
  // A shared port counts as unstable in Deno 2.9.
  const flags = ["--unstable-net", ...permissions];
  const child = new Deno.Command(shellProgram(), {
    args: ["-c", 'exec "$@"', "sh", Deno.execPath(), "run", ...flags, MAIN, "worker"],
    detached: true,
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
    clearEnv: true,
    env: environment(),
  }).spawn();
  const input = child.stdin.getWriter();
  // A worker that is gone already tells its story by its exit.
  const tell = (line: string) => void input.write(new TextEncoder().encode(line)).catch(() => {});
  tell(writeBrief(brief));
  const ready = Promise.withResolvers<string | null>();
  /** Of the reloads that it has not answered, the oldest first. */
  const asked: ((answer: ReloadAnswer | null) => void)[] = [];
  let hasEnded = false;
  const onAnswer = (answer: ReloadAnswer) => asked.shift()?.(answer);
  const reading = forwardLines(child.stdout, { onReady: ready.resolve, onAnswer }).catch(() => {});
  const exited = child.status.then(async ({ code }) => {
    await reading;
    ready.resolve(null);
    hasEnded = true;
    for (const answer of asked.splice(0)) answer(null);
    await input.close().catch(() => {});
    return code;
  });
  return {
    pid: child.pid,
    ready: ready.promise,
    exited,
    reload(loaded) {
      const { promise, resolve } = Promise.withResolvers<ReloadAnswer | null>();
      if (hasEnded) resolve(null);
      else asked.push(resolve);
      tell(writeReload(loaded));
      return promise;
    },
    signal(signal) {
      try {
        child.kill(signal);
      } catch {
        // It has ended by itself meanwhile.
      }
    },
  };
}

/** The runtime starts nothing with a variable of the loader in its environment unless it may start everything. */
function environment(): Record<string, string> {
  const all = Object.entries(Deno.env.toObject());
  return Object.fromEntries(all.filter(([name]) => !/^(LD|DYLD)_/.test(name)));
}

/** Passes on what a worker's operations print, and calls back for the lines that are the worker's own. */
async function forwardLines(
  stdout: ReadableStream<Uint8Array<ArrayBuffer>>,
  { onReady, onAnswer }: {
    onReady(url: string): void;
    onAnswer(answer: ReloadAnswer): void;
  },
): Promise<void> {
  let rest = "";
  for await (const text of stdout.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const url = readUrl(line);
      const answer = readAnswer(line);
      if (url !== null) onReady(url);
      else if (answer !== null) onAnswer(answer);
      else printRaw(`${line}\n`);
    }
  }
  if (rest !== "") printRaw(rest);
}
