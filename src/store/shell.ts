import { HubError } from "../core/error.ts";
import { shellProgram } from "../process/shell_program.ts";

/** The operating-system user that a child process runs as. */
export interface Account {
  name: string;
  uid: number;
  gid: number;
}

/** How a shell script is started. */
export interface ShellOptions {
  /** `$1`, `$2`, …: values never become part of the script's text. */
  args: string[];
  /** Null keeps the hub's own user. */
  account: Account | null;
  /** Text for standard input. */
  input?: string;
}

/** What a finished script left behind. */
export interface ShellResult {
  code: number;
  stdout: string;
  stderr: string;
}

const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** Runs a POSIX shell script to its end. `sh` is the only program the hub may start, so that `--allow-run=sh` is enough. */
export async function runShell(script: string, options: ShellOptions): Promise<ShellResult> {
  const child = spawn(script, options, {
    stdin: options.input === undefined ? "null" : "piped",
    stdout: "piped",
    stderr: "piped",
  });
  const collected = child.output();
  if (options.input !== undefined) {
    const writer = child.stdin.getWriter();
    // A script that ends without reading its input closes the pipe: its exit code tells the story, not the pipe.
    await writer.write(new TextEncoder().encode(options.input)).catch(() => {});
    await writer.close().catch(() => {});
  }
  const { code, stdout, stderr } = await collected;
  const decoder = new TextDecoder();
  return { code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
}

/**
 * Starts a script that lives on, in a process group of its own (a terminal's Ctrl-C does not reach it), with a pipe
 * as standard input: the pipe's end tells the script that the hub is gone, however it went.
 */
export function spawnShell(script: string, options: ShellOptions): Deno.ChildProcess {
  return spawn(script, options, {
    stdin: "piped",
    stdout: "null",
    stderr: "null",
    detached: true,
  });
}

function spawn(
  script: string,
  { args, account }: ShellOptions,
  streams: Deno.CommandOptions,
): Deno.ChildProcess {
  const program = shellProgram();
  const command = new Deno.Command(program, {
    ...streams,
    args: ["-c", script, "sh", ...args],
    cwd: "/",
    clearEnv: true,
    env: { PATH, LC_ALL: "C" },
    ...(account === null ? {} : { uid: account.uid, gid: account.gid }),
  });
  try {
    return command.spawn();
  } catch (error) {
    if (account === null || !(error instanceof Deno.errors.PermissionDenied)) throw error;
    throw new HubError(
      "invalid_configuration",
      `The user ${account.name}, who runs the embedded Postgres, cannot start ${program}, the sh of the hub's PATH: name a folder before it in PATH whose sh everybody may start, often /bin`,
      { cause: error },
    );
  }
}
