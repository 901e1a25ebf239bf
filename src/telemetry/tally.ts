import { Counter, type Registry } from "prom-client";

/** The count of one series. */
export interface Tally {
  value: number;
}

/** What a counter is made from. */
export interface TallyOptions {
  name: string;
  help: string;
  labelNames: string[];
  registers: Registry[];
}

/**
 * A counter whose series are plain numbers until somebody scrapes: the client's own `inc` sorts, joins and hashes the
 * labels at each call. Gives a function that makes a series; callers keep what it gives, and ask once for each series.
 */
export function createTallies(
  options: TallyOptions,
): (labels: Record<string, string | number>) => Tally {
  const series: { labels: Record<string, string | number>; tally: Tally }[] = [];
  new Counter({
    ...options,
    collect() {
      this.reset();
      for (const { labels, tally } of series) this.inc(labels, tally.value);
    },
  });
  return (labels) => {
    const tally = { value: 0 };
    series.push({ labels, tally });
    return tally;
  };
}

/** Remembers what was made for a key; for keys of which there is a bounded number. */
export function remember<K, V>(known: Map<K, V>, key: K, make: () => V): V {
  let value = known.get(key);
  if (value === undefined) known.set(key, value = make());
  return value;
}
