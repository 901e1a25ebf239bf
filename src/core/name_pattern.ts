/** A pattern over names, `*` standing for any text. Whoever wrote it: no name takes long, as none is looked at twice. */
export function namePattern(pattern: string): { test(name: string): boolean } {
  const [first = "", ...rest] = pattern.split("*");
  const last = rest.pop();
  return {
    test(name) {
      if (last === undefined) return name === first;
      const end = name.length - last.length;
      if (end < first.length || !name.startsWith(first) || !name.endsWith(last)) return false;
      let at = first.length;
      for (const text of rest) {
        const found = name.indexOf(text, at);
        at = found + text.length;
        if (found === -1 || at > end) return false;
      }
      return true;
    },
  };
}

/** Whether some name that begins with this prefix fits the pattern. */
export function mayFitPrefix(pattern: string, prefix: string): boolean {
  const star = pattern.indexOf("*");
  if (star === -1) return pattern.startsWith(prefix);
  const head = pattern.slice(0, star);
  return head.startsWith(prefix) || prefix.startsWith(head);
}

/** Whether a name fits one of the patterns. */
export function fitsPattern(name: string, patterns: readonly string[]): boolean {
  return patterns.some((pattern) => namePattern(pattern).test(name));
}

/**
 * Tells which names a list of patterns chooses: those that fit one, without those that fit one behind `!`, in whatever
 * order the patterns stand. A list that only takes away takes from all.
 */
export function createChooser(patterns: readonly string[]): (name: string) => boolean {
  const wanted = patterns.filter((pattern) => !pattern.startsWith("!"));
  const given = (wanted.length > 0 || patterns.length === 0 ? wanted : ["*"]).map(namePattern);
  const taken = patterns.filter((pattern) => pattern.startsWith("!"))
    .map((pattern) => namePattern(pattern.slice(1)));
  return (name) => given.some((fit) => fit.test(name)) && !taken.some((fit) => fit.test(name));
}

/** The names that patterns spell out, without any `*`. */
export function spelledNames(patterns: readonly string[]): string[] {
  return patterns.filter((pattern) => !pattern.includes("*") && !pattern.startsWith("!"));
}
