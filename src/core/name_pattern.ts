/** A pattern over names as an expression; `*` stands for any text. */
export function namePattern(pattern: string): RegExp {
  const parts = pattern.split("*").map((text) => text.replace(/[\\^$.|?+()[\]{}]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`, "s");
}

/** Whether a name fits one of the patterns. */
export function fitsPattern(name: string, patterns: readonly string[]): boolean {
  return patterns.some((pattern) => namePattern(pattern).test(name));
}
