import { eventually } from "./test_hub.ts";

const root = new URL("../../", import.meta.url);

/** The permissions of a task, as `deno.json` names them; those of `start` for a command without one. */
export async function flagsOf(task: string): Promise<string[]> {
  const text = await Deno.readTextFile(new URL("deno.json", root));
  const { tasks } = JSON.parse(text) as { tasks: Record<string, { command: string }> };
  const { command = "" } = tasks[task] ?? tasks["start"] ?? {};
  return command.split(" ").filter((word) => word.startsWith("--"));
}

/** Nothing of the machine's own but what a program needs to run. */
export function environment(folder: string): Record<string, string> {
  return {
    LOOPHUB_DATA_DIR: `${folder}/data`,
    LOOPHUB_PORT: "0",
    HOME: folder,
    PATH: Deno.env.get("PATH") ?? "",
    DENO_DIR: Deno.env.get("DENO_DIR") ?? `${Deno.env.get("HOME")}/.cache/deno`,
    NO_COLOR: "1",
  };
}

/** The program. */
export const main = new URL("src/main.ts", root).pathname;

/** Starts a command as its task does, and collects what it says; `input` is what stdin gives. */
export async function startCommand(
  folder: string,
  [name = "", ...args]: string[],
  env: Record<string, string> = {},
  input = "",
) {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", ...await flagsOf(name), main, name, ...args],
    cwd: folder,
    clearEnv: true,
    env: { ...environment(folder), ...env },
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(input)).catch(() => {});
  await writer.close().catch(() => {});
  let out = "";
  let err = "";
  const read = async (
    stream: ReadableStream<BufferSource>,
    take: (text: string) => void,
    options: { signal?: AbortSignal } = {},
  ) => {
    for await (const text of stream.pipeThrough(new TextDecoderStream(), options)) take(text);
  };
  const leaving = new AbortController();
  const { signal } = leaving;
  const readingOut = read(child.stdout, (text) => out += text, { signal }).catch((error) => {
    if (!signal.aborted) throw error;
  });
  const reading = Promise.all([readingOut, read(child.stderr, (text) => err += text)]);
  const ended = async () => {
    await reading;
    return (await child.status).code;
  };
  return {
    pid: child.pid,
    /** What it has written to stdout. */
    out: () => out,
    /** What it has written to stderr. */
    err: () => err,
    signal: (signal: Deno.Signal) => child.kill(signal),
    /** Stops reading its stdout and closes it, as `head` does. */
    async leaveOutput() {
      leaving.abort();
      await readingOut;
    },
    ended,
    async end(signal: Deno.Signal) {
      child.kill(signal);
      return await ended();
    },
  };
}

/** The key of the first start, from the file that the output names; null where it names none. */
export function firstKeyIn(output: string): string | null {
  const file = /OPENAI_API_KEY="\$\(cat '([^']+)'\)"/.exec(output)?.[1];
  return file === undefined ? null : Deno.readTextFileSync(file).trim();
}

/** A database URL with the password of an embedded Postgres. */
export function withPassword(masked: string, file: string): string {
  const url = new URL(masked);
  url.password = Deno.readTextFileSync(file).trim();
  return url.href;
}

/** A hub that runs as a process of its own. */
export type HubProcess = Awaited<ReturnType<typeof startHubProcess>>;

/** A busy machine makes a cluster, migrates and starts several processes in this time. */
const START_MS = 120_000;

/** Starts the hub as its task does, in a folder of its own, and waits for its address. */
export async function startHubProcess(
  folder: string,
  env: Record<string, string> = {},
  args: string[] = [],
) {
  const child = await startCommand(folder, ["start", ...args], env);
  let isOver = false;
  void child.ended().then(() => isOver = true);
  const found = (pattern: RegExp) =>
    eventually(() => {
      if (isOver) throw new Error(`The hub ended: ${child.err()}`);
      return pattern.exec(child.out())?.[1];
    }, START_MS);
  const url = await found(/listens on (http\S+)/);
  const key = () => firstKeyIn(child.out());
  const masked = await found(/psql\s+(postgres\S+)/);
  return {
    ...child,
    url,
    psql: env["DATABASE_URL"] ?? withPassword(masked, `${folder}/data/password`),
    key,
    /** Sends JSON with the key of the first start. */
    post: (path: string, body: unknown) =>
      fetch(url + path, {
        method: "POST",
        headers: { authorization: `Bearer ${key()}`, "content-type": "application/json" },
        body: JSON.stringify(body),
      }),
    /** The log lines of this message, oldest first. */
    logged: (message: string) =>
      child.err().split("\n").filter((line) => line.startsWith("{") && line.endsWith("}"))
        .map((line) => JSON.parse(line)).filter((line) => line.message === message),
  };
}

/** Runs a command to its end. */
export async function command(
  folder: string,
  args: string[],
  env: Record<string, string> = {},
  input = "",
) {
  const child = await startCommand(folder, args, env, input);
  const code = await child.ended();
  return { code, out: child.out(), err: child.err() };
}
