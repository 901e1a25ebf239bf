import { eventually } from "../support/test_hub.ts";

/** The ids of processes that have this text among their arguments or variables; those that are only to be buried do not count. */
export async function processesWith(text: string): Promise<number[]> {
  const { stdout } = await new Deno.Command("ps", { args: ["axeww", "-o", "pid=,args="] }).output();
  return new TextDecoder().decode(stdout).split("\n")
    .filter((line) => line.includes(text))
    .map((line) => Number.parseInt(line))
    .filter((pid) => pid !== Deno.pid);
}

/** Resolves when no process has this text among its arguments or variables. */
export async function noneWith(text: string): Promise<void> {
  await eventually(async () => (await processesWith(text)).length === 0 || null);
}
