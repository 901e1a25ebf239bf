import {
  type BegunCall,
  type EncodedUsageRow,
  encodeUsageRow,
  type UsageRow,
} from "../../src/store/usage_rows.ts";

export const RUN_ID = `run_${"1".repeat(32)}`;

/** The `index`-th row, of no run. */
export function usageRow(index: number, more: Partial<UsageRow> = {}): UsageRow {
  return {
    usageId: `usg_${index.toString(16).padStart(32, "0")}`,
    tenantId: "00000000-0000-0000-0000-000000000001",
    keyId: `key_${"0".repeat(32)}`,
    requestId: `r${index}`,
    kind: "proxy",
    provider: "p",
    model: "m",
    publicModel: "m",
    streamed: false,
    outcome: "ok",
    status: 200,
    errorCode: null,
    usage: null,
    estimated: false,
    costMicros: null,
    startedAt: 1_800_000_000_000,
    firstTokenMs: null,
    durationMs: 5,
    bytesOut: 10,
    attempts: [],
    ...more,
  };
}

/** The same, encoded. */
export const rowOf = (index: number, more: Partial<UsageRow> = {}): EncodedUsageRow =>
  encodeUsageRow(usageRow(index, more));

/** The `index`-th call, begun in a run. */
export function begunOf(index: number): BegunCall {
  const row = { ...usageRow(index), runId: RUN_ID };
  return { row, epoch: 1, price: null, isLogged: true };
}
