/** Largest resident memory that a process has had so far, in bytes (Linux). */
export async function peakMemoryOf(pid: number): Promise<number> {
  // The runtime keeps /proc of other processes from programs without all permissions.
  const { stdout } = await new Deno.Command("cat", { args: [`/proc/${pid}/status`], stdin: "null" })
    .output();
  const status = new TextDecoder().decode(stdout);
  const kilobytes = /^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1];
  if (kilobytes === undefined) throw new Error(`/proc/${pid}/status has no VmHWM`);
  return Number(kilobytes) * 1024;
}

/** A program of this folder that runs as a process of its own and prints one line once it is ready. */
export async function withProgram(
  name: string,
  args: readonly string[],
  use: (program: { pid: number; ready: string }) => Promise<void>,
): Promise<void> {
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--no-prompt",
      "--allow-net=127.0.0.1",
      "--allow-env",
      "--allow-read",
      new URL(name, import.meta.url).pathname,
      ...args,
    ],
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  try {
    let ready = "";
    while (!ready.includes("\n")) {
      const { value, done } = await reader.read();
      if (done) throw new Error(`${name} ended before it was ready`);
      ready += value;
    }
    await use({ pid: child.pid, ready: ready.trim() });
  } finally {
    child.kill("SIGKILL");
    await child.status;
    await reader.cancel();
  }
}
