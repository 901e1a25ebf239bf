import { pinned } from "./pin.ts";
import type { Target } from "./targets.ts";

const build = new URL("build/", import.meta.url).pathname;
const MEGABYTE = 1024 * 1024;

/** Resident memory of a process, in bytes; `cat` reads `/proc`, which the runtime itself keeps closed. */
export async function residentBytes(pid: number | null): Promise<number> {
  const { stdout } = await new Deno.Command("cat", { args: [`/proc/${pid}/statm`] }).output();
  return Number(new TextDecoder().decode(stdout).split(" ")[1] ?? 0) * 4096;
}

/** What the hub's memory grows by while this many streams give an event a second each, in megabytes. */
export async function measureStreams(
  hub: Target,
  { streams, folder }: { streams: number; folder: string },
): Promise<{ idle: number; added: number; errors: number }> {
  const file = `${folder}/slow.json`;
  const message = { role: "user", content: "slow" };
  await Deno.writeTextFile(
    file,
    JSON.stringify({ model: "mock/mock-n60-d1000-k1", stream: true, messages: [message] }),
  );
  const idle = await residentBytes(hub.pid);
  const args = [
    ...["-P", hub.port, "-u", "/v1/chat/completions", "-f", file, "-s"],
    ...["-c", streams, "-R", 3000, "-d", 6, "-w", 1, "-T", 60],
    ...hub.headers.flatMap((header) => ["-H", header]),
  ].map(String);
  const child = new Deno.Command(...pinned(0, `${build}load`, args, { stdout: "piped" })).spawn();
  await new Promise((resolve) => setTimeout(resolve, 6000));
  const loaded = await residentBytes(hub.pid);
  const { stdout } = await child.output();
  const { err = 0 } = JSON.parse(new TextDecoder().decode(stdout)) as { err?: number };
  return { idle: idle / MEGABYTE, added: (loaded - idle) / MEGABYTE, errors: err };
}
