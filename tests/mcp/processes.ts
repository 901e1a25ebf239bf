import { eventually } from "../support/test_hub.ts";

/** The ids of processes that have this text among their variables or arguments; those that are only to be buried do not count. */
export async function processesWith(text: string): Promise<string[]> {
  const found: string[] = [];
  for await (const { name } of Deno.readDir("/proc")) {
    if (!/^\d+$/.test(name) || name === String(Deno.pid)) continue;
    for (const file of ["environ", "cmdline"]) {
      const said = await Deno.readTextFile(`/proc/${name}/${file}`).catch(() => "");
      if (said.includes(text)) found.push(name);
    }
  }
  return [...new Set(found)];
}

/** Resolves when no process has this text among its variables or arguments. */
export async function noneWith(text: string): Promise<void> {
  await eventually(async () => (await processesWith(text)).length === 0 || null);
}
