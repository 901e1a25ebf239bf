import { eventually } from "../support/test_hub.ts";

/** The ids of processes that have this text among their arguments or variables; those that are only to be buried do not count. */
export async function processesWith(text: string): Promise<number[]> {
  return (await processes()).filter(({ shown }) => shown.includes(text))
    .map(({ pid }) => pid)
    .filter((pid) => pid !== Deno.pid);
}

/** The ids of processes that this one has started, with this text among their arguments or variables. */
export async function childrenOf(parent: number, text = ""): Promise<number[]> {
  return (await processes()).filter(({ ppid, shown }) => ppid === parent && shown.includes(text))
    .map(({ pid }) => pid);
}

async function processes() {
  const args = ["axeww", "-o", "pid=,ppid=,args="];
  const { stdout } = await new Deno.Command("ps", { args }).output();
  return new TextDecoder().decode(stdout).split("\n").map((line) => {
    const [, pid, ppid, shown = ""] = /^\s*(\d+)\s+(\d+)\s(.*)$/.exec(line) ?? [];
    return { pid: Number(pid), ppid: Number(ppid), shown };
  });
}

/** Resolves when no process has this text among its arguments or variables. */
export async function noneWith(text: string): Promise<void> {
  await eventually(async () => (await processesWith(text)).length === 0 || null);
}
