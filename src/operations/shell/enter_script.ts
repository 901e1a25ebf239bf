import { COMMON } from "../files/scripts.ts";

/**
 * Becomes the program `$9…` in the folder `$3` of the root `$1`, with nothing to read and with limits: `$4` KiB of address
 * space, `$5` processes, `$6` blocks of 512 bytes a file; 0 is no limit. `$8` is the program's `PATH`. `$7` is 1 in a sandbox, where only its own processes are seen: root
 * has no limit of processes, so there they are counted.
 */
export const ENTER = `${COMMON}
die() { printf '[loophub] %s\\n' "$1" >&2; exit 70; }
enter "$1" || die "$why"
memory=$2 processes=$3 blocks=$4 boxed=$5 path=$6; shift 6
exec 9>&- </dev/null
{
  ulimit -c 0
  [ "$memory" = 0 ] || ulimit -v "$memory"
  [ "$blocks" = 0 ] || ulimit -f "$blocks"
} 2>/dev/null
watch() {
  set +f
  while sleep 0.05; do
    set -- /proc/[0-9]*
    [ "$#" -le "$processes" ] || break
  done
  printf '[loophub] more than %s processes\\n' "$processes" >&2
  kill -KILL -1
}
if [ "$processes" != 0 ]; then
  if [ "$boxed" = 1 ] && [ "$(id -u)" = 0 ]; then
    (watch >/dev/null &)
  elif [ "$boxed" = 1 ]; then
    { ulimit -u "$processes" || ulimit -p "$processes"; } 2>/dev/null
  else
    # What the user runs already counts.
    running=$(set +f; set -- /proc/[0-9]*/task/[0-9]*; echo "$#")
    { ulimit -u "$((processes + running))" || ulimit -p "$((processes + running))"; } 2>/dev/null
  fi
fi
# The hub, and whoever puts an end to this, come first.
nice=$(command -v nice) || nice=
PATH=$path
export PATH
if [ -n "$nice" ]; then exec "$nice" -n 19 "$@"; fi
exec "$@"
`;

/** How the script says that it could not begin. */
export const NOT_ENTERED = /^\[loophub\] ([a-z-]+)\n$/;
