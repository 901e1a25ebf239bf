import { Counter, Gauge, type Registry } from "prom-client";
import type { GateCount } from "./gate_count.ts";

/** Makes the series of gates. Gives the function that adds what is counted at one, which gives the one that takes it away. */
export function createGateMetrics(registers: Registry[]): (count: GateCount) => () => void {
  const counts = new Set<GateCount>();
  const gauge = (name: string, help: string, read: (count: GateCount) => number) =>
    new Gauge({
      name,
      help,
      labelNames: ["gate", "name"],
      registers,
      collect() {
        this.reset();
        for (const count of counts) this.set({ ...count.labels }, read(count));
      },
    });
  gauge("loophub_gate_inside", "Requests that have a place", ({ inside }) => inside);
  gauge("loophub_gate_waiting", "Requests that wait for a place", ({ waiting }) => waiting);
  new Counter({
    name: "loophub_gate_turned_away_total",
    help: "Requests that got no place: the queue was full, it took too long, or the client left",
    labelNames: ["gate", "name", "reason"],
    registers,
    collect() {
      this.reset();
      for (const { labels, full, late, left } of counts) {
        this.inc({ ...labels, reason: "full" }, full);
        this.inc({ ...labels, reason: "late" }, late);
        this.inc({ ...labels, reason: "left" }, left);
      }
    },
  });
  return (count) => {
    counts.add(count);
    return () => void counts.delete(count);
  };
}
