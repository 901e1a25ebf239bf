import type { CommandResult } from "../../process/run_command.ts";
import { runCommand } from "../../process/run_command.ts";
import type { Clock } from "../../core/clock.ts";
import { HubError } from "../../core/error.ts";
import type { ShownCall, ToolContext } from "../../core/tool.ts";
import { likelySecrets } from "../../telemetry/likely_secret.ts";
import { Scrubber } from "../../telemetry/scrub.ts";
import { folderOf, outside, quote, toPlace, type Workspace } from "../files/workspace.ts";
import { ENTER, NOT_ENTERED } from "./enter_script.ts";

/** What commands of a workspace may be and use. */
export interface ShellRules {
  /** Commands that may run; null lets all run. */
  allow: readonly string[] | null;
  /** Whether whole scripts may run. */
  script: boolean;
  timeoutMs: number;
  maxTimeoutMs: number;
  /** The whole environment of commands; what is secret in it stays out of what they are seen to write. */
  env: Record<string, string>;
  /** Program and arguments that commands run within; none without a sandbox. */
  within: readonly string[];
  maxOutputBytes: number;
  maxMemoryMb: number;
  maxProcesses: number;
  maxFileMb: number;
}

/** A program to run in a folder of the workspace. */
export interface ShellCall {
  argv: readonly string[];
  cwd: string;
  timeoutMs: number;
}

const MAX_ARGUMENT_BYTES = 96 * 1024;
/** Of the words of a command that people are shown. */
const MAX_SHOWN_CHARS = 32 * 1024;
const PROGRESS_MS = 200;
const MAX_PROGRESS_CHARS = 2000;

/** Runs programs in a workspace. */
export class Shell {
  readonly #workspace: Workspace;
  readonly #rules: ShellRules;
  readonly #secrets: Scrubber;

  constructor(workspace: Workspace, rules: ShellRules) {
    this.#workspace = workspace;
    this.#rules = rules;
    const entries = Object.entries(rules.env);
    this.#secrets = new Scrubber(entries.flatMap(([name, value]) => likelySecrets(value, [name])));
  }

  /** What would run, and where. Throws for what could not. */
  preview({ argv, cwd }: Pick<ShellCall, "argv" | "cwd">): ShownCall {
    const problem = findProblem(argv);
    if (problem !== null) throw new HubError("invalid_request", problem);
    const shown: string[] = [];
    let chars = 0;
    for (const word of argv) {
      chars += word.length + 1;
      if (chars > MAX_SHOWN_CHARS) break;
      shown.push(word);
    }
    const { shown: folder } = toPlace(this.#workspace, cwd);
    const isCut = shown.length < argv.length;
    const preview = { kind: "command" as const, argv: shown, cwd: folder };
    return { preview: isCut ? { ...preview, isCut } : preview };
  }

  /** Runs a program to its end and says what became of it. Rejects when it was ended, with what it wrote until then. */
  async run(call: ShellCall, context: ToolContext): Promise<string> {
    const { clock, signal } = context;
    const { env, within, maxOutputBytes, maxMemoryMb, maxProcesses, maxFileMb } = this.#rules;
    const { path, isLimited } = this.#workspace;
    const problem = findProblem(call.argv);
    if (problem !== null) throw new HubError("invalid_request", problem);
    const place = toPlace(this.#workspace, call.cwd);
    const progress = new Progress(context, this.#secrets);
    const startedMs = clock.monotonic();
    const result = await runCommand({
      argv: [
        ...within,
        "sh",
        "-c",
        ENTER,
        "sh",
        place.root,
        isLimited ? "1" : "0",
        folderOf(place),
        String(maxMemoryMb * 1024),
        String(maxProcesses),
        String(maxFileMb * 2048),
        within.length > 0 ? "1" : "0",
        env["PATH"] ?? path,
        ...call.argv,
      ],
      // What supervises the program is never found by a path that is the program's.
      env: { ...env, PATH: path },
      timeoutMs: call.timeoutMs,
      maxOutputBytes,
      onOutput: (chunk, stream) => progress.add(new TextDecoder().decode(chunk), stream),
      signal,
      clock,
    });
    progress.end();
    const why = NOT_ENTERED.exec(result.stderr)?.[1];
    if (result.exitCode === 70 && result.stdout === "" && why !== undefined) {
      throw toError(why, call.cwd);
    }
    const tookMs = Math.round(clock.monotonic() - startedMs);
    if (result.ended === null && result.exitCode !== null) {
      return this.#describe(`exit code ${result.exitCode} after ${tookMs} ms`, result);
    }
    const reason = result.ended === "timeout"
      ? `It did not end within ${call.timeoutMs} ms`
      : result.ended === "output"
      ? "It wrote without end"
      : "It was killed";
    throw new Error(
      this.#describe(`${reason}, so all that it had started was ended after ${tookMs} ms`, result),
    );
  }

  #describe(first: string, { stdout, stderr }: CommandResult): string {
    const scrub = (text: string) => this.#secrets.scrub(text);
    const written = describeStreams({ stdout: scrub(stdout), stderr: scrub(stderr) });
    return [first, ...written.length === 0 ? ["(it wrote nothing)"] : written].join("\n");
  }
}

/** Tells whoever watches the run what a program writes, a few times a second. */
class Progress {
  readonly #context: { clock: Clock; progress: ToolContext["progress"] };
  readonly #secrets: Scrubber;
  #waiting = { stdout: "", stderr: "" };
  #lastMs = Number.NEGATIVE_INFINITY;

  constructor(
    context: { clock: Clock; progress: ToolContext["progress"] },
    secrets: Scrubber,
  ) {
    this.#context = context;
    this.#secrets = secrets;
  }

  add(text: string, stream: "stdout" | "stderr"): void {
    const most = MAX_PROGRESS_CHARS + this.#secrets.longest;
    this.#waiting[stream] = this.#secrets.scrub(this.#waiting[stream] + text).slice(-most);
    if (this.#context.clock.monotonic() - this.#lastMs >= PROGRESS_MS) this.#tell(false);
  }

  /** Tells what has not been told. */
  end(): void {
    this.#tell(true);
  }

  #tell(isOver: boolean): void {
    const stdout = this.#take("stdout", isOver);
    const stderr = this.#take("stderr", isOver);
    if (stdout === "" && stderr === "") return;
    this.#lastMs = this.#context.clock.monotonic();
    this.#context.progress({
      ...stdout === "" ? {} : { stdout: stdout.toWellFormed() },
      ...stderr === "" ? {} : { stderr: stderr.toWellFormed() },
    });
  }

  /** What waits, but for the beginning of a secret that may still come whole. */
  #take(stream: "stdout" | "stderr", isOver: boolean): string {
    const text = this.#waiting[stream];
    const end = text.length - (isOver ? 0 : this.#secrets.unfinished(text));
    this.#waiting[stream] = text.slice(end);
    return text.slice(0, end);
  }
}

/** What a program has written, as its result has it. */
export function describeStreams({ stdout, stderr }: { stdout: string; stderr: string }): string[] {
  return [
    ...stdout === "" ? [] : ["--- stdout", stdout.replace(/\n$/, "")],
    ...stderr === "" ? [] : ["--- stderr", stderr.replace(/\n$/, "")],
  ];
}

function findProblem(argv: readonly string[]): string | null {
  const [command = ""] = argv;
  if (command === "" || command.startsWith("-")) return `${quote(command)} is no command`;
  if (argv.some((one) => one.includes("\0"))) return "An argument has a NUL in it";
  const bytes = argv.reduce((sum, one) => sum + new TextEncoder().encode(one).length + 1, 0);
  if (bytes > MAX_ARGUMENT_BYTES) {
    return `The arguments have ${bytes} bytes, more than ${MAX_ARGUMENT_BYTES}: write a file`;
  }
  return null;
}

function toError(why: string, cwd: string): HubError {
  if (why === "outside") return outside(cwd);
  if (why === "no-root") {
    return new HubError("not_found", "The folder of the workspace is not there");
  }
  return new HubError("invalid_request", `${quote(cwd)} is no folder that can be entered`);
}
