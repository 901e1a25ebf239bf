import type { ProcessGroup } from "../process/end_group.ts";
import { shellProgram } from "../process/shell_program.ts";
import { OUTLIVE } from "../process/supervise.ts";

/**
 * Ends the servers of a hub that was killed, those included whose supervisors cannot hear of it. A small process that
 * knows which run; it is started with the first of them and ends with the hub.
 */
export class Lifeline {
  readonly #options: { graceMs: number; path: string | undefined };
  readonly #groups = new Set<ProcessGroup>();
  #child: { input: WritableStreamDefaultWriter<Uint8Array>; status: Promise<unknown> } | null =
    null;

  constructor(options: { graceMs: number; path: string | undefined }) {
    this.#options = options;
  }

  /** A server runs. */
  hold(group: ProcessGroup): void {
    this.#groups.add(group);
    if (this.#child !== null) return this.#say("+", group);
    try {
      this.#start();
    } catch {
      // No process can be started just now: the next server brings one.
    }
  }

  /** A server and all it started are gone. */
  release(group: ProcessGroup): void {
    if (this.#groups.delete(group)) this.#say("-", group);
  }

  /** Ends the process; servers that still run would be ended by it. */
  async close(): Promise<void> {
    const child = this.#child;
    this.#child = null;
    await child?.input.close().catch(() => {/* it is gone */});
    await child?.status;
  }

  #start(): void {
    const { graceMs, path } = this.#options;
    const child = new Deno.Command(shellProgram(), {
      args: ["-c", OUTLIVE, "sh", String(graceMs / 1000)],
      stdin: "piped",
      stdout: "null",
      stderr: "null",
      clearEnv: true,
      env: path === undefined ? {} : { PATH: path },
      detached: true,
    }).spawn();
    const started = { input: child.stdin.getWriter(), status: child.status };
    this.#child = started;
    void child.status.then(() => {
      if (this.#child !== started) return;
      // Somebody ended it: the next server brings another one.
      this.#child = null;
      started.input.abort().catch(() => {});
    });
    for (const group of this.#groups) this.#say("+", group);
  }

  #say(sign: "+" | "-", { pid, start }: ProcessGroup): void {
    const line = new TextEncoder().encode(`${sign} ${pid} ${start}\n`);
    this.#child?.input.write(line).catch(() => {/* it is gone */});
  }
}
