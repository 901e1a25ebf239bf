/**
 * What all scripts begin with. `$1` is the root, `$2` is 0 where it is the whole system, else nothing outside of it is
 * reached: 1, or `names` where the system cannot tell what was opened; there a link that comes in the moment between is followed.
 *
 * A folder is entered first, and then looked at: a working directory is a place, not a name, so nobody can exchange it
 * afterwards. A file is opened first, and then looked at, before anything of it is given out. What is changed is the
 * last name in a folder that was entered: `rename` and `unlink` do not follow links.
 */
export const COMMON = `set -f
root=$1 strict=$2; shift 2
made=
exec 9>&2
die() { [ -z "$made" ] || rm -f -- "$made"; printf '%s\\n' "$1" >&9; exit 70; }
look() { at=$(pwd -P && echo .) || return 1; at=\${at%??}; }
within() { case $1/ in "$top"/*) ;; *) why=outside; return 1 ;; esac; }
enter() {
  why=missing
  [ -d "./$1" ] || { [ ! -e "./$1" ] || why=not-a-folder; return 1; }
  why=denied
  cd -P -- "./$1" 2>/dev/null && look && within "$at"
}
make() {
  IFS=/
  for part in $1; do
    unset IFS
    [ -d "./$part" ] || mkdir -- "./$part" 2>/dev/null
    enter "$part" || return 1
  done
  unset IFS
}
fd() {
  why=unchecked
  case $strict in
    0) return 0 ;;
    names) why=outside; [ ! -h "./$2" ]; return ;;
  esac
  real=$(readlink "/proc/self/fd/$1" && echo .) || return 1
  within "\${real%??}"
}
kind() {
  why=missing
  [ -e "./$1" ] || { [ ! -h "./$1" ] || why=broken-link; return 1; }
  why=folder
  [ ! -d "./$1" ] || return 1
  why=special
  [ -f "./$1" ]
}
token() { stat -L -c '%d:%i:%s:%z' "$1" 2>/dev/null || stat -L -f '%d:%i:%z:%Fc' "$1" 2>/dev/null; }
size() { stat -L -c '%s' "$1" 2>/dev/null || stat -L -f '%z' "$1"; }
links() { stat -c '%h' "$1" 2>/dev/null || stat -f '%l' "$1"; }
keep() { mv -nT -- "$1" "$2" || { [ ! -d /proc/self/fd ] && mv -nh -- "$1" "$2"; }; } 2>/dev/null
put() { mv -fT -- "$1" "$2" || { [ ! -d /proc/self/fd ] && mv -fh -- "$1" "$2"; }; } 2>/dev/null
cd -P -- "$root" 2>/dev/null && look || die no-root
top=\${at%/}
`;

/** Gives `$3` bytes at most of the file `$2` in the folder `$1`, behind a line that tells this state of it from others. */
export const READ = `${COMMON}
enter "$1" || die "$why"
kind "$2" || die "$why"
{
  fd 3 "$2" || die "$why"
  [ -f /dev/fd/3 ] || die special
  token /dev/fd/3
  head -c "$3" <&3
} 3<"./$2" || die denied
`;

/**
 * Gives `$1` bytes at most of each of the files `$3…`, each behind a line of the mark `$2` and its number, and a line
 * feed after it. What cannot be read is left out.
 */
export const READ_MANY = `${COMMON}
max=$1 mark=$2 n=0; shift 2
for path do
  n=$((n + 1))
  cd -P -- "\${top:-/}" && look && within "$at" || die no-root
  case $path in */*) folder=\${path%/*} ;; *) folder=. ;; esac
  name=\${path##*/}
  enter "$folder" && kind "$name" || continue
  {
    if fd 3 "$name" && [ -f /dev/fd/3 ]; then
      printf '%s%s\\n' "$mark" "$n"
      head -c "$max" <&3
      echo
    fi
  } 3<"./$name"
done 2>/dev/null
printf '%s0\\n' "$mark"
`;

/**
 * Writes its input of `$4` bytes as the file `$2` in the folder `$1`: into a new file `$5` beside it, which then takes its
 * place. `$3` says what has to be there before: `any`, `absent`, or a state that READ told.
 */
export const WRITE = `${COMMON}
make "$1" || die "$why"
name=$2
mode= owner=
[ ! -h "./$name" ] || die link
if [ -e "./$name" ]; then
  kind "$name" || die "$why"
  [ "$3" != absent ] || die exists
  [ "$3" = any ] || [ "$(token "./$name")" = "$3" ] || die changed
  [ "$strict" = 0 ] || [ "$(links "./$name")" = 1 ] || die linked
  mode=$(stat -c %a "./$name" 2>/dev/null || stat -f %Lp "./$name")
  owner=$(stat -c %u:%g "./$name" 2>/dev/null || stat -f %u:%g "./$name")
else
  case $3 in any | absent) ;; *) die changed ;; esac
fi
set -C
{
  made="./$5"
  fd 4 "$5" || die "$why"
  [ "$strict" != 1 ] || [ "\${real%??}" = "$at/$5" ] || die outside
  cat >&4 || die full
  [ "$(size /dev/fd/4)" = "$4" ] || die cut
  [ -z "$mode" ] || chmod "$mode" /dev/fd/4
  [ -z "$owner" ] || chown "$owner" /dev/fd/4
} 4>"./$5" 2>/dev/null || die denied
put "./$5" "./$name" || die denied
made=
token "./$name"
`;

/**
 * Tells what is in the folder `$1`, `$2` levels deep, without what is called `$3` and without what is in folders that are
 * called `$4…`: type, size, time of the last change and path, apart by `/`, the mark `$3` and a line feed after each.
 */
export const WALK = `${COMMON}
enter "$1" || die "$why"
depth=$2 mark=$3; shift 3
if find . -prune -printf '' 2>/dev/null; then
  each="-printf"; format="%y/%s/%T@/%P/$mark\\\\n"
else
  each=
fi
names=
for name do names="$names -name $name -prune -o"; done
if [ -n "$each" ]; then
  find . -mindepth 1 -maxdepth "$depth" $names -printf "$format"
elif stat -c %F . >/dev/null 2>&1; then
  find . -mindepth 1 -maxdepth "$depth" $names -exec stat -c "%F/%s/%Y/%n/$mark" {} +
else
  find . -mindepth 1 -maxdepth "$depth" $names -exec stat -f "%HT/%z/%m/%N/$mark" {} +
fi 2>/dev/null
:
`;

/** Tells type, size, time of the last change, mode, links and, of a link, the target of `$2` in the folder `$1`. */
export const STAT = `${COMMON}
enter "$1" || die "$why"
[ -e "./$2" ] || [ -h "./$2" ] || die missing
stat -c '%F/%s/%Y/%a/%h' "./$2" 2>/dev/null || stat -f '%HT/%z/%m/%Lp/%l' "./$2" || die denied
[ ! -h "./$2" ] || readlink "./$2"
`;

/** Removes what WRITE made as `$2` in the folder `$1` and left there when it was ended. */
export const DISCARD = `${COMMON}
enter "$1" || die "$why"
rm -f -- "./$2" 2>/dev/null || die denied
`;

/**
 * Moves `$2` in the folder `$1` to `$4` in the folder `$3`; what is there stays unless `$5` is 1, also what comes in the
 * moment between: a second name is given only where there is none, as is a folder's where the system can rename so.
 */
export const MOVE = `${COMMON}
make "$3" || die "$why"
[ "$5" = 1 ] || { [ ! -e "./$4" ] && [ ! -h "./$4" ]; } || die exists
[ -h "./$4" ] || [ ! -d "./$4" ] || die exists
target=$at
exec 5<.
cd -P -- "\${top:-/}" && enter "$1" || die "$why"
[ -e "./$2" ] || [ -h "./$2" ] || die missing
[ ! -d /proc/self/fd/5 ] || target=/proc/self/fd/5
target=$target/$4
if [ "$5" = 1 ]; then
  put "./$2" "$target" || die denied
  exit 0
fi
if [ ! -d "./$2" ] || [ -h "./$2" ]; then
  if ln -T -- "./$2" "$target" 2>/dev/null; then
    rm -f -- "./$2" 2>/dev/null && exit 0
    rm -f -- "$target" 2>/dev/null
    die denied
  fi
fi
keep "./$2" "$target"
[ -e "./$2" ] || [ -h "./$2" ] || exit 0
[ ! -e "$target" ] && [ ! -h "$target" ] || die exists
die denied
`;

/** Removes `$2` from the folder `$1`, and whatever is in it if `$3` is 1. */
export const DELETE = `${COMMON}
enter "$1" || die "$why"
[ -e "./$2" ] || [ -h "./$2" ] || die missing
if [ ! -d "./$2" ] || [ -h "./$2" ]; then
  rm -f -- "./$2" 2>/dev/null || die denied
elif [ "$3" = 1 ]; then
  # Itself, so that it ends when the script is ended.
  exec rm -rf -- "./$2" 2>/dev/null
else
  rmdir -- "./$2" 2>/dev/null || die not-empty
fi
`;
