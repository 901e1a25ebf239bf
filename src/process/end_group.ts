import { shellProgram } from "./shell_program.ts";
import { END_GROUP } from "./supervise.ts";

/** A group of processes that a supervisor leads. */
export interface ProcessGroup {
  /** The process that leads it. */
  pid: number;
  /** Tells it from others that had the number. */
  start: string;
}

/** Ends a group, and what has left it. `sh` is the only program that the hub has to be allowed to run. */
export async function endGroup({ pid, start }: ProcessGroup): Promise<void> {
  const args = ["-c", END_GROUP, "sh", String(pid), start];
  await new Deno.Command(shellProgram(), { args, stdout: "null", stderr: "null" }).output();
}
