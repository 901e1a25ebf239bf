/**
 * Tells whether a command may run: it has to begin with the words of an entry, such as `git` or `git status`. Words are
 * compared as they are.
 */
export function allowedCommands(
  entries: readonly string[],
): (command: string, args: readonly string[]) => boolean {
  const allowed = entries.map((entry) => entry.split(" "));
  return (command, args) => {
    const words = [command, ...args];
    return allowed.some((wanted) => wanted.every((word, at) => word === words[at]));
  };
}
