import assert from "node:assert/strict";
import { createRedactor } from "../../src/telemetry/redact.ts";
import { parseTraceparent, writeTraceparent } from "../../src/telemetry/traceparent.ts";
import { type ApiContext, type ApiSpan, createTracing } from "../../src/telemetry/tracing.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const SPAN = "b7ad6b7169203331";
const SECRET = "canary-secret-of-the-hub";

/** A sink that keeps what it gets. */
function createSink({ flags = 1, fails = false } = {}) {
  const calls: [string, unknown][] = [];
  const parents: unknown[] = [];
  class Context implements ApiContext {
    constructor(readonly span: unknown = null) {}
    setValue(_key: symbol, span: unknown) {
      return new Context(span);
    }
  }
  const span = (): ApiSpan => ({
    spanContext: () => ({ traceId: TRACE, spanId: SPAN, traceFlags: flags }),
    setAttributes: (attributes) => {
      if (fails) throw new Error("no");
      calls.push(["attributes", attributes]);
    },
    setStatus: (status) => calls.push(["status", status]),
    end: (endMs) => calls.push(["end", endMs]),
  });
  const tracer = {
    startSpan(name: string, options: unknown, context: ApiContext) {
      if (fails && flags === 0) throw new Error("no");
      calls.push([name, options]);
      parents.push((context as Context).span);
      return span();
    },
  };
  return { calls, parents, sink: { tracer, root: new Context() } };
}

const { redact } = createRedactor({ secrets: [SECRET] });
const START = { kind: "server" as const, startMs: 1000, attributes: {} };
const off = { bodies: false, propagate: false };

Deno.test("attributes are whole numbers, flags, texts and lists; what is not there is left out", () => {
  const { calls, sink } = createSink();
  const span = createTracing({ sink, settings: off, redact }).start("a", {
    ...START,
    attributes: { a: 1.4, b: true, c: "text", d: ["x"], e: null, f: undefined, g: NaN },
  });
  assert.deepEqual(calls, [["a", {
    kind: 1,
    startTime: 1000,
    attributes: { a: 1n, b: true, c: "text", d: ["x"] },
  }]]);
  span?.end({ endMs: 2000, error: "upstream_cut", attributes: { h: 3 } });
  span?.end({ endMs: 3000 });
  assert.deepEqual(calls.slice(1), [
    ["attributes", { h: 3n, "error.type": "upstream_cut" }],
    ["status", { code: 2 }],
    ["end", 2000],
  ]);
});

Deno.test("a trace goes on from its origin, unless that is not sampled", () => {
  const { parents, sink } = createSink();
  const tracing = createTracing({ sink, settings: off, redact });
  const origin = { traceId: TRACE, spanId: SPAN, flags: 1 };
  const span = tracing.start("a", START, origin);
  const [parent] = parents as { spanContext(): unknown }[];
  const remote = { traceId: TRACE, spanId: SPAN, traceFlags: 1, isRemote: true };
  assert.deepEqual(parent?.spanContext(), remote);
  assert.equal(tracing.start("a", START, { ...origin, flags: 0 }), null);
  assert.equal(parents.length, 1);
  assert.equal(span?.traceparent, `00-${TRACE}-${SPAN}-01`);
  assert.notEqual(span?.child("b", START), null);
  assert.equal(parents.length, 2);
});

Deno.test("a trace that the runtime does not sample is none, and so is one that it cannot make", () => {
  const unsampled = createTracing({ ...createSink({ flags: 0 }), settings: off, redact });
  assert.equal(unsampled.start("a", START), null);
  const broken = createTracing({
    ...createSink({ flags: 0, fails: true }),
    settings: off,
    redact,
  });
  assert.equal(broken.start("a", START), null);
  const failing = createTracing({ ...createSink({ fails: true }), settings: off, redact });
  failing.start("a", START)?.end({ endMs: 1 });
});

Deno.test("secrets are in no name, attribute or body, and long texts are cut", () => {
  const { calls, sink } = createSink();
  const settings = { bodies: true, propagate: false };
  const span = createTracing({ sink, settings, redact }).start(`chat ${SECRET}`, {
    ...START,
    attributes: { model: `up/${SECRET}`, list: [SECRET], long: "x".repeat(10_000) },
  });
  const body = span?.body(() => `${"y".repeat(16_380)}${SECRET}${"z".repeat(5000)}`) ?? "";
  span?.end({ endMs: 1, attributes: { "loophub.request.body": body } });
  const text = JSON.stringify(calls, (_, value) => typeof value === "bigint" ? "n" : value);
  assert.ok(!text.includes(SECRET) && !text.includes("canary"));
  assert.ok(text.length < 18_000);
  assert.match(body, /… \[cut: \d+ characters\]$/);
});

Deno.test("bodies are not even made unless they are wanted", () => {
  const span = createTracing({ ...createSink(), settings: off, redact }).start("a", START);
  const body = span?.body(() => {
    throw new Error("made");
  });
  assert.equal(body, null);
});

Deno.test("a traceparent is read as W3C says", () => {
  const good = `00-${TRACE}-${SPAN}-01`;
  assert.deepEqual(parseTraceparent(good), { traceId: TRACE, spanId: SPAN, flags: 1 });
  assert.equal(writeTraceparent({ traceId: TRACE, spanId: SPAN, flags: 1 }), good);
  assert.equal(parseTraceparent(`cc-${TRACE}-${SPAN}-00-later`)?.flags, 0);
  const bad = [
    null,
    "",
    `${good}-more`,
    `ff-${TRACE}-${SPAN}-01`,
    `00-${"0".repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${"0".repeat(16)}-01`,
    `00-${TRACE.toUpperCase()}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}`,
    `cc-${TRACE}-${SPAN}-01-${"x".repeat(600)}`,
  ];
  for (const text of bad) assert.equal(parseTraceparent(text), null, String(text));
});
