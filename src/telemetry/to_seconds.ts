/** Milliseconds as Prometheus wants them; its client throws at what is no number. */
export function toSeconds(durationMs: number): number {
  return Number.isFinite(durationMs) ? Math.max(0, durationMs) / 1000 : 0;
}
