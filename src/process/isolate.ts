import type { Clock } from "../core/clock.ts";
import { type Bubblewrap, DROPPED, tryWithin } from "./sandbox.ts";

/**
 * Runs a program (`$3…`) with the whole file system and a process table of its own: it finds no other process in
 * `/proc`, so it reads no environment, arguments, descriptors or memory of the hub. `$1` is the path that bubblewrap is
 * looked for in, `$2` a file that cannot be read inside (empty: none). SIGTERM reaches the program and not bubblewrap,
 * whose end would kill the program at once; where `env` cannot give the signal its default back, it ends both.
 */
const ISOLATE = `own=\${PATH-} hidden=$2 reset=
PATH=$1
shift 2
bwrap=$(command -v bwrap) env=$(command -v env)
if "$env" --default-signal=TERM true 2>/dev/null; then
  reset=--default-signal=TERM
  trap '' TERM
fi
PATH=$own
[ -e "$hidden" ] || hidden=
exec "$bwrap" --unshare-pid --die-with-parent ${DROPPED.join(" ")} --bind / / \\
  --dev-bind /dev /dev --proc /proc \${hidden:+--ro-bind /dev/null "$hidden"} \\
  -- "$env" $reset "$@"
`;

/** What a program is isolated with. */
export interface IsolateRules {
  /** Where bubblewrap is looked for, whatever the program's own `PATH` is. */
  path: string;
  /** A file that the program cannot read; null hides none. */
  hiddenFile: string | null;
}

/** The program and arguments that an isolated program runs within. */
export function isolateArgv({ path, hiddenFile }: IsolateRules): string[] {
  return ["/bin/sh", "-c", ISOLATE, "sh", path, hiddenFile ?? ""];
}

/** Tries whether programs can be isolated here; says why not. */
export async function findIsolation(
  { path, clock }: { path: string; clock: Clock },
): Promise<Bubblewrap> {
  const within = isolateArgv({ path, hiddenFile: null });
  return await tryWithin(within, { script: "test -d /proc/self/fd", args: [], path, clock });
}

/** Isolates programs of a hub, as far as that works here. */
export class Isolation {
  readonly #options: IsolateRules & { clock: Clock; onMissing(reason: string): void };
  #found: Promise<Bubblewrap> | null = null;

  /** `onMissing` is called once, with the reason, when a program is wanted to be isolated and cannot be. */
  constructor(options: IsolateRules & { clock: Clock; onMissing(reason: string): void }) {
    this.#options = options;
  }

  /** Whether programs can be isolated; tried once, when it is asked first. Never rejects. */
  find(): Promise<Bubblewrap> {
    return this.#found ??= findIsolation(this.#options).then((found) => {
      if (!found.works) this.#options.onMissing(found.reason);
      return found;
    });
  }

  /** The program and arguments that an isolated program runs within. */
  get argv(): readonly string[] {
    return isolateArgv(this.#options);
  }
}
