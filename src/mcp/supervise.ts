/**
 * Runs an MCP server (`$2…`) with its standard input relayed, until that ends: then the hub has closed it or is gone,
 * however it went. The server gets `$1` tenths of a second to end by itself, as long again after SIGTERM to its group, and
 * SIGKILL then. What it started dies with it, whichever of them ends first. `$$` leads the group; the last words on
 * stderr say how the server ended, since the whole group, this shell included, is killed at the end. Before that the
 * shell has buried its own children, so that none is left to a hub that is process 1 of a container.
 */
export const SUPERVISE = `grace=$1; shift
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
  kill -KILL "-$$"
) | (
  trap : TERM INT HUP
  "$@" 3<&-
  printf '\\n[loophub] exit:%s\\n' "$?" >&2
  kill -TERM "-$$"
)
kill -KILL "-$$"
`;

/** How the supervisor's last words read. */
export const EXIT_WORDS = /\n?\[loophub\] exit:(\d+)\n$/;
