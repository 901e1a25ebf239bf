import { eventually } from "./test_hub.ts";

const root = new URL("../../", import.meta.url);

/** The permissions of a task, as `deno.json` names them. */
async function flagsOf(task: string): Promise<string[]> {
  const text = await Deno.readTextFile(new URL("deno.json", root));
  const command = (JSON.parse(text) as { tasks: Record<string, { command: string }> }).tasks[task]
    ?.command ?? "";
  return command.split(" ").filter((word) => word.startsWith("--"));
}

/** Nothing of the machine's own but what a program needs to run. */
function environment(folder: string): Record<string, string> {
  return {
    LOOPHUB_DATA_DIR: `${folder}/data`,
    LOOPHUB_PORT: "0",
    HOME: folder,
    PATH: Deno.env.get("PATH") ?? "",
    DENO_DIR: Deno.env.get("DENO_DIR") ?? `${Deno.env.get("HOME")}/.cache/deno`,
    NO_COLOR: "1",
  };
}

const main = new URL("src/main.ts", root).pathname;

/** A hub that runs as a process of its own. */
export type HubProcess = Awaited<ReturnType<typeof startHubProcess>>;

/** Starts the hub as its task does, in a folder of its own, and waits for its address. */
export async function startHubProcess(
  folder: string,
  env: Record<string, string> = {},
  args: string[] = [],
) {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", ...await flagsOf("start"), main, "start", ...args],
    cwd: folder,
    clearEnv: true,
    env: { ...environment(folder), ...env },
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  let output = "";
  let log = "";
  const read = async (stream: ReadableStream<BufferSource>, take: (text: string) => void) => {
    for await (const text of stream.pipeThrough(new TextDecoderStream())) take(text);
  };
  const reading = Promise.all([
    read(child.stdout, (text) => output += text),
    read(child.stderr, (text) => log += text),
  ]);
  const ended = async () => {
    await reading;
    return (await child.status).code;
  };
  const found = (pattern: RegExp) => eventuallySlow(() => pattern.exec(output)?.[1]);
  const url = await found(/listens on (http\S+)/);
  const psql = await found(/psql\s+(postgres:\S+)/);
  return {
    url,
    psql,
    key: () => /OPENAI_API_KEY=(\S+)/.exec(output)?.[1] ?? null,
    output: () => output,
    /** The log lines of this message, oldest first. */
    logged: (message: string) =>
      log.split("\n").filter((line) => line.startsWith("{") && line.endsWith("}"))
        .map((line) => JSON.parse(line)).filter((line) => line.message === message),
    signal: (signal: Deno.Signal) => child.kill(signal),
    ended,
    async end(signal: Deno.Signal) {
      child.kill(signal);
      return await ended();
    },
  };
}

/** Like `eventually`, for half a minute. */
export async function eventuallySlow<T>(
  ask: () => T | undefined | Promise<T | undefined>,
): Promise<T> {
  for (let second = 0; second < 6; second++) {
    try {
      return await eventually(async () => await ask());
    } catch (error) {
      if (second === 5) throw error;
    }
  }
  throw new Error("unreachable");
}

/** Runs a command to its end. */
export async function command(folder: string, args: string[], env: Record<string, string> = {}) {
  const output = await new Deno.Command(Deno.execPath(), {
    args: ["run", ...await flagsOf("run"), main, ...args],
    cwd: folder,
    clearEnv: true,
    env: { ...environment(folder), ...env },
    stdin: "null",
  }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code: output.code, out: text(output.stdout), err: text(output.stderr) };
}
