import assert from "node:assert/strict";
import { createSseParser, type SseEvent } from "../../src/core/sse.ts";
import { DONE_FRAME, OPEN_FRAME, PING_FRAME, renderUiEvent } from "../../src/wire/ui_stream.ts";
import { validLog } from "../support/logs.ts";
import { property } from "../support/property.ts";

const read = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

Deno.test("frames are an id line, one data line and a blank line", () => {
  const event = { type: "text-delta", id: "t0", delta: "é\n\r\u2028" } as const;
  assert.equal(
    read(renderUiEvent(event, 7)),
    'id: 7\ndata: {"type":"text-delta","id":"t0","delta":"é\\n\\r\u2028"}\n\n',
  );
});

Deno.test("transient events have no id", () => {
  const event = { type: "data", name: "progress", data: 1, transient: true } as const;
  assert.equal(
    read(renderUiEvent(event, null)),
    'data: {"type":"data","name":"progress","data":1,"transient":true}\n\n',
  );
});

Deno.test("what a provider wants back with reasoning is not sent", () => {
  const origin = { provider: "p", model: "m", field: "reasoning_details", payload: "signature" };
  assert.equal(
    read(renderUiEvent({ type: "reasoning-end", id: "r0", origin }, 3)),
    'id: 3\ndata: {"type":"reasoning-end","id":"r0"}\n\n',
  );
});

Deno.test("the frames around events", () => {
  assert.equal(read(OPEN_FRAME), ": open\n\n");
  assert.equal(read(PING_FRAME), ": ping\n\n");
  assert.equal(read(DONE_FRAME), "data: [DONE]\n\n");
});

property("a log comes back from its frames, number by number", validLog, (log) => {
  const frames: SseEvent[] = [];
  const parser = createSseParser({ onEvent: (frame) => frames.push(frame) });
  parser.push(OPEN_FRAME);
  for (const { seq, event } of log) {
    parser.push(renderUiEvent(event, seq));
    parser.push(PING_FRAME);
  }
  parser.push(DONE_FRAME);
  assert.equal(parser.end(), false);
  assert.equal(frames.pop()?.data, "[DONE]");
  assert.deepEqual(
    frames.map(({ id, data }) => ({ seq: Number(id), event: JSON.parse(data) })),
    log.map(({ seq, event }) => {
      if (event.type !== "reasoning-end") return { seq, event };
      return { seq, event: { type: event.type, id: event.id } };
    }),
  );
});
