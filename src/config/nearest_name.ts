/** The candidate that a misspelt name most likely means, or null when none is close. */
export function nearestName(name: string, candidates: Iterable<string>): string | null {
  const wanted = fold(name);
  // A slip for every four letters or so: more would be a guess.
  const allowed = Math.min(3, Math.floor((wanted.length + 1) / 4));
  let best: string | null = null;
  let bestDistance = allowed + 1;
  for (const candidate of candidates) {
    const distance = editDistance(wanted, fold(candidate), bestDistance);
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** `, did you mean "x"` or nothing, to be put behind what was wanted. */
export function didYouMean(name: string, candidates: Iterable<string>): string {
  const nearest = nearestName(name, candidates);
  return nearest === null ? "" : `, did you mean ${JSON.stringify(nearest)}`;
}

/** `base_url`, `baseURL` and `base-url` are all `baseUrl`. */
function fold(name: string): string {
  return name.toLowerCase().replaceAll(/[_-]/g, "");
}

/** Insertions, deletions, replacements and swaps of neighbours between two texts; `limit` when it is that or more. */
function editDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) >= limit) return limit;
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let cost = Math.min(
        at(last, j) + 1,
        at(row, j - 1) + 1,
        at(last, j - 1) + (same ? 0 : 1),
      );
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        cost = Math.min(cost, at(beforeLast, j - 2) + 1);
      }
      row.push(cost);
    }
    beforeLast = last;
    last = row;
  }
  return Math.min(limit, at(last, b.length));
}

function at(row: number[], index: number): number {
  return row[index] ?? Infinity;
}
