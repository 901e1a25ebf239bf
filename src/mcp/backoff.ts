const FIRST_MS = 1000;
const LONGEST_MS = 60_000;

/** How long to wait before the next attempt: 1 s, twice as long each time up to 60 s, of which the last half is drawn. */
export function backoffMs(failures: number, random: () => number): number {
  const full = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(failures - 1, 10));
  return Math.round(full * (0.5 + 0.5 * random()));
}
