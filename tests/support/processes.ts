import { eventually } from "./test_hub.ts";

/** A process of this machine. */
interface Process {
  pid: number;
  ppid: number;
  /** `Z` for one that has ended and waits for its parent, `T` for one that is stopped. */
  state: string;
  /** Arguments and, where this user may read them, variables. */
  shown: string;
}

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

/** The process that has started this one; null when this one is gone. */
export async function parentOf(pid: number): Promise<number | null> {
  return (await processes()).find((process) => process.pid === pid)?.ppid ?? null;
}

/** How a process stands (`R`, `S`, `T`, `Z` …); null when it is gone. */
export async function stateOf(pid: number): Promise<string | null> {
  return (await processes()).find((process) => process.pid === pid)?.state ?? null;
}

/** Resolves when no process has this text among its arguments or variables. */
export async function noneWith(text: string): Promise<void> {
  await eventually(async () => (await processesWith(text)).length === 0 || null);
}

const processes = () => Deno.build.os === "linux" ? readProc() : readPs();

/** Linux machines may lack `ps`. The runtime itself keeps /proc of other processes from programs without all permissions. */
async function readProc(): Promise<Process[]> {
  const files = ["stat", "cmdline", "environ"].map((name) => `/proc/[0-9]*/${name}`).join(" ");
  const { stdout } = await new Deno.Command("sh", {
    args: ["-c", `exec head -v -c 1000000 ${files}`],
    stderr: "null",
  }).output();
  const parts = new TextDecoder().decode(stdout)
    .split(/(?:^|\n)==> \/proc\/(\d+)\/(stat|cmdline|environ) <==\n/);
  const found = new Map<number, Process>();
  for (let at = 1; at < parts.length; at += 3) {
    const [pid, name, text = ""] = [Number(parts[at]), parts[at + 1], parts[at + 2]];
    if (name === "stat") {
      // The name of the program, in parentheses, may have any character in it.
      const [state = "", ppid] = text.slice(text.lastIndexOf(")") + 2).split(" ");
      found.set(pid, { pid, ppid: Number(ppid), state, shown: "" });
      continue;
    }
    const process = found.get(pid);
    if (process !== undefined) process.shown += `${text.replaceAll("\0", " ")} `;
  }
  return [...found.values()];
}

async function readPs(): Promise<Process[]> {
  const args = ["axeww", "-o", "pid=,ppid=,stat=,args="];
  const { stdout } = await new Deno.Command("ps", { args }).output();
  return new TextDecoder().decode(stdout).split("\n").map((line) => {
    const [, pid, ppid, state = "", shown = ""] = /^\s*(\d+)\s+(\d+)\s+(\S)\S*\s(.*)$/.exec(line) ??
      [];
    return { pid: Number(pid), ppid: Number(ppid), state, shown };
  });
}
