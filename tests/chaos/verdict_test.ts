import assert from "node:assert/strict";
import { judgeStream } from "./verdict.ts";

const LOG = [
  { type: "start", messageId: "m", runId: "r", sessionId: "s", model: "x" },
  { type: "step-start", step: 0 },
  { type: "text-start", id: "p0" },
].map((event, at) => ({ seq: at + 1, data: JSON.stringify(event) }));
const RESET = { seq: 9, data: JSON.stringify({ type: "step-reset", step: 0 }) };
const at = (seq: number, event: unknown) => ({ seq, data: JSON.stringify(event) });

Deno.test("a stream counts as the log's when it is so byte for byte", () => {
  judgeStream("r", LOG, LOG);
  const turned = LOG.with(1, { seq: 2, data: '{"step":0,"type":"step-start"}' });
  assert.throws(() => judgeStream("r", LOG, turned), /not the log's bytes/);
  assert.throws(() => judgeStream("r", LOG, LOG.slice(0, -1)), /not the log's bytes/);
  assert.throws(() => judgeStream("r", LOG, LOG.toReversed()), /order/);
});

Deno.test("what was shown and not kept is deltas alone, in front of their reset", () => {
  const log = [...LOG, RESET];
  const withOne = (shown: { seq: number; data: string }) => [...LOG, shown, RESET];
  const delta = at(4, { type: "text-delta", id: "p0", delta: "x" });
  judgeStream("r", log, withOne(delta));
  assert.throws(() => judgeStream("r", LOG, [...LOG, delta]), /never taken back/);
  for (
    const event of [
      { type: "step-start", step: 1 },
      { type: "tool-output-available", toolCallId: "c", output: { text: "x" } },
      { type: "step-finish", step: 0, finishReason: "stop", usage: {} },
    ]
  ) assert.throws(() => judgeStream("r", log, withOne(at(4, event))), /is not in the log/);
});
