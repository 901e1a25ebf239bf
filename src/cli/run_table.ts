import type { RunOverview } from "../store/run_overview.ts";

const COLUMNS: readonly { title: string; text: (run: RunOverview) => string }[] = [
  { title: "RUN", text: ({ runId }) => runId },
  { title: "STATUS", text: ({ status }) => status },
  { title: "OWNER", text: ({ owner }) => owner ?? "-" },
  { title: "EPOCH", text: ({ epoch }) => String(epoch) },
  { title: "STEP", text: ({ step }) => step === null ? "-" : String(step) },
  { title: "AGE", text: ({ ageMs }) => formatSpan(ageMs) },
  { title: "LEASE", text: ({ leaseMs }) => formatLease(leaseMs) },
  { title: "AGENT", text: ({ agent }) => agent },
  { title: "MODEL", text: ({ model }) => model },
];

/** Runs as the lines of a table, its titles first. */
export function formatRuns(runs: readonly RunOverview[]): string[] {
  const rows = [
    COLUMNS.map(({ title }) => title),
    ...runs.map((run) => COLUMNS.map(({ text }) => text(run))),
  ];
  const widths = COLUMNS.map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
  return rows.map((row) =>
    row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join("  ").trimEnd()
  );
}

/** What is left of a lease, or how long ago it ran out. */
export function formatLease(leaseMs: number | null): string {
  if (leaseMs === null) return "-";
  return leaseMs >= 0 ? formatSpan(leaseMs) : `lapsed ${formatSpan(-leaseMs)} ago`;
}

/** A duration by its two largest units: `0s`, `59s`, `3m 5s`, `2h 0m`, `5d 3h`. */
export function formatSpan(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  if (minutes === 0) return `${seconds}s`;
  if (hours === 0) return `${minutes}m ${seconds % 60}s`;
  if (hours < 24) return `${hours}h ${minutes % 60}m`;
  return `${Math.floor(hours / 24)}d ${hours % 24}h`;
}
