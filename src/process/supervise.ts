/**
 * Ends what a server started outside its group, as daemons do: it has the variable that the server got, unless it was
 * taken away. Where there is no `/proc`, nothing is found.
 */
const SWEEP = `sweep() {
  for round in 1 2 3 4 5; do
    found=$(grep -lsF "LOOPHUB_CHILD=$1" /proc/[0-9]*/environ)
    [ -n "$found" ] || return 0
    for at in $found; do
      at=\${at#/proc/}
      kill -KILL "\${at%/environ}"
    done
  done
} 2>/dev/null
`;

/**
 * Runs a program, such as an MCP server, (`$3…`) with its standard input relayed, until that ends: then the hub has closed it or is gone,
 * however it went. The server gets `$1` tenths of a second to end by itself, as long again after SIGTERM to its group, and
 * SIGKILL then. What it started dies with it, whichever of them ends first. `$$` leads the group, `$2` tells it from
 * others that had the number, and both are in a variable that the server gets; the last words on stderr say how the server ended, since the whole group, this shell
 * included, is killed at the end. Before that the shell has buried its own children, so that none is left to a hub that
 * is process 1 of a container.
 */
export const SUPERVISE = `${SWEEP}
grace=$1; mark="$$-$2"; shift 2
trap : TERM INT HUP
exec 3<&0 </dev/null
(
  trap : INT HUP
  trap 'exit 0' TERM
  exec 2>/dev/null
  cat <&3 || exit 0
  exec 3<&- >&-
  linger() { n=0; while [ "$n" -lt "$grace" ]; do n=$((n + 1)); sleep 0.1 || exit 0; done; }
  linger
  trap : TERM
  kill -TERM "-$$"
  trap 'exit 0' TERM
  linger
  sweep "$mark"
  kill -KILL "-$$"
) | (
  trap : TERM INT HUP
  LOOPHUB_CHILD="$mark" "$@" 3<&-
  printf '\\n[loophub] exit:%s\\n' "$?" >&2
  kill -TERM "-$$"
)
sweep "$mark"
kill -KILL "-$$"
`;

/**
 * Runs a program that reads nothing and starts nothing outside its group (`$1…`), until standard input ends: then whoever
 * wanted it has closed it or is gone, however it went. Ends as the program did.
 */
export const WATCH = `trap : TERM INT HUP
exec 3<&0 </dev/null
{
  trap : TERM
  read -r gone
  kill -TERM "-$$"
  sleep 1
  kill -KILL "-$$"
} <&3 3<&- >/dev/null 2>&1 &
watch=$!
"$@" 3<&-
code=$?
{ kill -KILL "$watch"; wait "$watch"; } 2>/dev/null
exit "$code"
`;

/** How the supervisor's last words read. */
export const EXIT_WORDS = /\n?\[loophub\] exit:(\d+)\n$/;

/** Ends the server of the group `$1` that was started at `$2`, and its supervisor. */
export const END_GROUP = `${SWEEP}
sweep "$1-$2"
kill -KILL "-$1"
`;

/**
 * Outlives the hub for a moment. It is told of groups that run (`+ <group> <start>`) and of those that have ended (`-`);
 * when its input ends, those that are left get `$1` seconds, SIGTERM, as long again, and SIGKILL. A supervisor that cannot
 * hand on what the hub wrote, because its server reads nothing, does not hear of the hub's end itself.
 */
export const OUTLIVE = `${SWEEP}
grace=$1; groups=" "
trap '' TERM INT HUP
while read -r sign group start; do
  case $sign in
    +) groups="$groups$group-$start " ;;
    -) groups="\${groups%% $group-$start *} \${groups#* $group-$start }" ;;
  esac
done
[ "$groups" = " " ] && exit 0
exec 2>/dev/null
sleep "$grace"
for one in $groups; do kill -TERM "-\${one%%-*}"; done
sleep "$grace"
for one in $groups; do
  kill -0 "-\${one%%-*}" || continue
  sweep "$one"
  kill -KILL "-\${one%%-*}"
done
`;
