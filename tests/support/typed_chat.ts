import { environment, flagsOf, main } from "./hub_process.ts";
import { eventually } from "./test_hub.ts";

/** Whether there is a program that gives a command a terminal. */
export function hasScript(): boolean {
  try {
    return Deno.statSync("/usr/bin/script").isFile;
  } catch {
    return false;
  }
}

/** Types answers to what a chat's terminal shows, one behind the other; gives all that it has shown. */
export async function typed(
  folder: string,
  answers: [seen: RegExp, keys: string | (() => Promise<string>)][],
  { args = [], env = {} }: { args?: string[]; env?: Record<string, string> } = {},
) {
  const words = [Deno.execPath(), "run", ...await flagsOf("chat"), main, "chat", ...args];
  const child = new Deno.Command("/usr/bin/script", {
    args: ["-qefc", words.join(" "), "/dev/null"],
    cwd: folder,
    clearEnv: true,
    env: { ...environment(folder), TERM: "xterm", ...env },
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  let text = "";
  const reading = (async () => {
    for await (const piece of child.stdout.pipeThrough(new TextDecoderStream())) text += piece;
  })();
  const writer = child.stdin.getWriter();
  let from = 0;
  try {
    for (const [seen, keys] of answers) {
      await eventually(() => seen.test(text.slice(from)) ? true : null);
      from = text.length;
      const typing = typeof keys === "string" ? keys : await keys();
      await writer.write(new TextEncoder().encode(typing));
    }
    const { code } = await child.status;
    return { code, text };
  } catch (error) {
    child.kill("SIGKILL");
    throw new Error(`${error}: ${text}`);
  } finally {
    await writer.close().catch(() => {});
    await reading;
  }
}
