/** The `count` names most like `wanted`, best first: fewest changed letters, case aside; ties in alphabetical order. */
export function nearestNames(wanted: string, names: readonly string[], count: number): string[] {
  const folded = wanted.slice(0, 64).toLowerCase();
  return names
    .map((name) => ({ name, distance: editDistance(folded, name.toLowerCase()) }))
    .sort((a, b) => a.distance - b.distance || (a.name < b.name ? -1 : 1))
    .slice(0, count)
    .map(({ name }) => name);
}

/** Insertions, deletions and replacements that turn one text into the other (Levenshtein). */
function editDistance(a: string, b: string): number {
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (last[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(replaced, (last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1));
    }
    last = row;
  }
  return last[b.length] ?? 0;
}
