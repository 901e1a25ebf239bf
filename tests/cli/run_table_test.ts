import assert from "node:assert/strict";
import { formatLease, formatRuns, formatSpan } from "../../src/cli/run_table.ts";

const run = {
  runId: "run_1",
  sessionId: "ses_1",
  agent: "default",
  model: "one/m",
  status: "running" as const,
  finishReason: null,
  owner: "12-ab",
  epoch: 2,
  attempts: 2,
  step: 0,
  lastSeq: 7,
  ageMs: 65_000,
  leaseMs: 14_999,
  createdAt: "2026-01-01T00:00:00.000Z",
  finishedAt: null,
};

Deno.test("runs are a table whose columns are as wide as they must be", () => {
  const ended = {
    ...run,
    runId: "run_22",
    status: "completed" as const,
    owner: null,
    leaseMs: null,
    step: null,
  };
  assert.deepEqual(formatRuns([run, ended]), [
    "RUN     STATUS     OWNER  EPOCH  STEP  AGE    LEASE  AGENT    MODEL",
    "run_1   running    12-ab  2      0     1m 5s  14s    default  one/m",
    "run_22  completed  -      2      -     1m 5s  -      default  one/m",
  ]);
  assert.equal(formatRuns([]).length, 1);
});

Deno.test("durations have two units, leases say when they ran out", () => {
  const spans = [-5, 0, 999, 59_999, 60_000, 3_599_999, 3_600_000, 86_399_999, 98_000_000];
  assert.deepEqual(spans.map(formatSpan), [
    "0s",
    "0s",
    "0s",
    "59s",
    "1m 0s",
    "59m 59s",
    "1h 0m",
    "23h 59m",
    "1d 3h",
  ]);
  assert.deepEqual([null, 0, 15_000, -3000].map(formatLease), [
    "-",
    "0s",
    "15s",
    "lapsed 3s ago",
  ]);
});
