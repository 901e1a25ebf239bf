/** A process and all that it has started, as programs of the machine see them. */
export async function descendantsOf(
  root: number,
): Promise<{ pid: number; environ: string; cmdline: string }[]> {
  const { stdout } = await new Deno.Command("ps", { args: ["-e", "-o", "pid=,ppid="] }).output();
  const parents = new Map(
    new TextDecoder().decode(stdout).trim().split("\n").map((line) => {
      const [pid = 0, parent = 0] = line.trim().split(/\s+/).map(Number);
      return [pid, parent];
    }),
  );
  const isBelow = (pid: number): boolean =>
    pid === root || pid > 1 && isBelow(parents.get(pid) ?? 0);
  const read = async (path: string) => {
    const { stdout } = await new Deno.Command("cat", { args: [path], stderr: "null" }).output();
    return new TextDecoder().decode(stdout).replaceAll("\0", "\n");
  };
  const pids = [...parents.keys()].filter(isBelow);
  return await Promise.all(pids.map(async (pid) => ({
    pid,
    environ: await read(`/proc/${pid}/environ`),
    cmdline: await read(`/proc/${pid}/cmdline`),
  })));
}

/** All files below a folder, but in folders of names that are left out. */
export async function filesOf(
  folder: string,
  enters: (name: string) => boolean = () => true,
): Promise<{ path: string; text: string; mode: number }[]> {
  const files = [];
  for await (const entry of Deno.readDir(folder)) {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory && enters(entry.name)) files.push(...await filesOf(path, enters));
    if (!entry.isFile) continue;
    const { mode } = await Deno.stat(path);
    files.push({ path, text: await Deno.readTextFile(path), mode: mode ?? 0 });
  }
  return files;
}
