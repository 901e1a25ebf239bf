import type { Clock } from "../core/clock.ts";
import { runScript } from "./run_script.ts";

/** What a program in the sandbox may see and do. */
export interface SandboxRules {
  /** The only folder of the user's that is there, at its own path, and can be written; null gives the whole system. */
  folder: string | null;
  /** Further paths that can be read. */
  readOnly?: readonly string[];
  /** Whether it reaches the network. */
  network?: boolean;
}

/** Whether bubblewrap works here. */
export type Bubblewrap = { works: true } | { works: false; reason: string };

/** Why it does not work where it is not there. */
export const NO_BUBBLEWRAP = "bubblewrap (bwrap) is not installed";

/** Folders of the system that programs need; whatever is not there is left out. */
const SYSTEM = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store"];
/** Of `/etc` only what is no secret: a hub that runs as root could read all of it. */
const ETC = [
  "alternatives",
  "ca-certificates",
  "group",
  "ld.so.cache",
  "ld.so.conf",
  "ld.so.conf.d",
  "localtime",
  "nsswitch.conf",
  "os-release",
  "passwd",
  "pki/tls/certs",
  "protocols",
  "services",
  "ssl/certs",
  "ssl/openssl.cnf",
];
/** Of `/etc` what names of the network need. */
const ETC_NETWORK = ["hosts", "resolv.conf"];
/** Of `/proc` what root could change the whole machine by, whatever its capabilities. */
const PROC = ["sys", "sysrq-trigger", "irq", "bus", "fs"];
/** In memory, for what is no file of the workspace; all else that bubblewrap makes there could be filled without end. */
const TMP_BYTES = 256 * 1024 * 1024;
const PROBE_MS = 10_000;
/**
 * A root inside would unmount the sandbox's `/proc` and find the machine's below it, or attach to processes: dropped also
 * where the program may change all files. Other users have no capability inside.
 */
export const DROPPED: readonly string[] = [
  "CAP_SYS_ADMIN",
  "CAP_SYS_PTRACE",
  "CAP_SYS_MODULE",
  "CAP_SYS_RAWIO",
  "CAP_BPF",
  "CAP_PERFMON",
].flatMap((name) => ["--cap-drop", name]);

/**
 * The program and arguments that others run within: bubblewrap with namespaces of their own, so that they see no
 * other process, and all of them end when the first does or when bubblewrap is ended, sessions of their own included.
 * Its environment is seen inside: it has to be a clean one.
 */
export function sandboxArgv({ folder, readOnly = [], network = false }: SandboxRules): string[] {
  const etc = [...ETC, ...network ? ETC_NETWORK : []].map((name) => `/etc/${name}`);
  const common = ["--die-with-parent", "--new-session"];
  if (folder === null) {
    const all = ["--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc"];
    return ["bwrap", "--unshare-pid", ...common, ...DROPPED, ...all, "--"];
  }
  return [
    "bwrap",
    "--unshare-all",
    ...network ? ["--share-net"] : [],
    ...common,
    "--cap-drop",
    "ALL",
    ...[...SYSTEM, ...etc].flatMap((path) => ["--ro-bind-try", path, path]),
    "--dev",
    "/dev",
    ...["/dev/shm", "/tmp"].flatMap((path) => ["--size", String(TMP_BYTES), "--tmpfs", path]),
    ...readOnly.flatMap((path) => ["--ro-bind", path, path]),
    "--bind",
    folder,
    folder,
    "--proc",
    "/proc",
    ...PROC.flatMap((name) => ["--ro-bind-try", `/proc/${name}`, `/proc/${name}`]),
    ...["/dev", "/"].flatMap((path) => ["--remount-ro", path]),
    "--chdir",
    folder,
    "--",
  ];
}

/** Tries whether bubblewrap is there and may do what it has to; says why not. */
export async function findBubblewrap(
  { path, clock }: { path: string; clock: Clock },
): Promise<Bubblewrap> {
  let folder: string | null = null;
  try {
    folder = await Deno.makeTempDir({ prefix: "loophub-sandbox-" });
    const script = 'test -d /proc/self/fd && : >"$1/made"';
    return await tryWithin(sandboxArgv({ folder }), { script, args: [folder], path, clock });
  } catch (error) {
    return { works: false, reason: error instanceof Error ? error.message : String(error) };
  } finally {
    if (folder !== null) await Deno.remove(folder, { recursive: true }).catch(() => {});
  }
}

/** Runs a script within a sandbox; it works when the script ends with 0. Never rejects. */
export async function tryWithin(
  within: readonly string[],
  { script, args, path, clock }: {
    script: string;
    args: readonly string[];
    path: string;
    clock: Clock;
  },
): Promise<Bubblewrap> {
  try {
    const { code, stderr } = await runScript({
      script,
      args,
      within,
      env: { PATH: path },
      maxBytes: 1000,
      timeoutMs: PROBE_MS,
      signal: new AbortController().signal,
      clock,
    });
    return code === 0 ? { works: true } : { works: false, reason: reasonOf(code, stderr) };
  } catch (error) {
    return { works: false, reason: error instanceof Error ? error.message : String(error) };
  }
}

function reasonOf(code: number, stderr: string): string {
  if (code === 127) return NO_BUBBLEWRAP;
  const last = stderr.trim().split("\n").at(-1) ?? "";
  return last === "" ? `bubblewrap ended with code ${code}` : last.slice(0, 200);
}
