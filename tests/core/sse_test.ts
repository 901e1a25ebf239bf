import assert from "node:assert/strict";
import fc from "fast-check";
import { HubError } from "../../src/core/error.ts";
import {
  createSseParser,
  encodeSseComment,
  encodeSseFrame,
  type SseEvent,
  type SseParserOptions,
} from "../../src/core/sse.ts";
import { property } from "../support/property.ts";

const encoder = new TextEncoder();
type Bounds = Omit<SseParserOptions, "onEvent">;

function parse(chunks: readonly Uint8Array[], bounds: Bounds = {}): SseEvent[] {
  const events: SseEvent[] = [];
  const parser = createSseParser({ ...bounds, onEvent: (event) => events.push(event) });
  for (const chunk of chunks) parser.push(chunk);
  parser.end();
  return events;
}

const parseText = (text: string, bounds: Bounds = {}) => parse([encoder.encode(text)], bounds);

function bytewise(bytes: Uint8Array): Uint8Array[] {
  return Array.from(bytes, (byte) => Uint8Array.of(byte));
}

/** The standard's own algorithm, line by line on the whole text: slow and plain. */
function reference(text: string): SseEvent[] {
  const events: SseEvent[] = [];
  let [data, event, id] = ["", "", ""];
  const lines = text.replace(/^\ufeff/, "").split(/\r\n|\n|\r/);
  // What stands behind the last line end is no line yet.
  for (const line of lines.slice(0, -1)) {
    if (line === "") {
      if (data !== "") events.push({ event: event || "message", data: data.slice(0, -1), id });
      data = event = "";
      continue;
    }
    const match = /^([^:]*)(?:: ?([\s\S]*))?$/.exec(line);
    const [name, value] = [match?.[1] ?? "", match?.[2] ?? ""];
    if (name === "data") data += `${value}\n`;
    if (name === "event") event = value;
    if (name === "id" && !value.includes("\0")) id = value;
  }
  return events;
}

Deno.test("fields, comments, defaults and the last event id follow the standard", () => {
  const text = [
    "\ufeff: hello",
    "event: add",
    "data: a",
    "data:b",
    "data",
    "data:  two spaces",
    "id: 7",
    "",
    "data: next",
    "unknown: x",
    "",
    "id: bad\0id",
    "event: lonely",
    "",
    "id",
    "data:",
    "",
    "data: never ended",
  ].join("\n");
  assert.deepEqual(parseText(text), [
    { event: "add", data: "a\nb\n\n two spaces", id: "7" },
    { event: "message", data: "next", id: "7" },
    { event: "message", data: "", id: "" },
  ]);
});

Deno.test("only the first byte order mark is dropped", () => {
  assert.deepEqual(parseText("\ufeffdata: a\n\n\ufeffdata: b\n\n").map(({ data }) => data), ["a"]);
});

Deno.test("retry counts digits only", () => {
  const parser = createSseParser({ onEvent() {} });
  parser.push(encoder.encode("retry: 1500\nretry: soon\nretry:\n"));
  assert.equal(parser.retryMs, 1500);
  parser.end();
});

Deno.test("end tells a clean end from a cut one", () => {
  const cases: [string, boolean][] = [
    ["data: a\n\n", false],
    ["", false],
    ["data: a\n\n: ping\n", false],
    ["data: a\n", true],
    ["data: a", true],
    ["event: a\n", true],
  ];
  for (const [text, isCut] of cases) {
    const parser = createSseParser({ onEvent() {} });
    parser.push(encoder.encode(text));
    assert.equal(parser.end(), isCut, JSON.stringify(text));
  }
  const split = createSseParser({ onEvent() {} });
  split.push(Uint8Array.of(0xf0, 0x9f));
  assert.equal(split.end(), true);
});

Deno.test("every cut, and every byte alone, gives the same events", () => {
  for (const end of ["\n", "\r", "\r\n"]) {
    const text = [
      "\ufeff: 😀",
      "event: é",
      "data: ärger 😀",
      "data: 日本",
      "id: 1",
      "",
      "data: x",
      "",
      "",
    ]
      .join(end);
    const bytes = encoder.encode(text);
    const whole = parse([bytes]);
    assert.equal(whole.length, 2);
    assert.deepEqual(parse(bytewise(bytes)), whole);
    for (let cut = 0; cut <= bytes.length; cut++) {
      assert.deepEqual(parse([bytes.subarray(0, cut), bytes.subarray(cut)]), whole, `cut ${cut}`);
    }
  }
});

const piece = fc.constantFrom(
  ...[
    "data: ",
    "data:",
    "data",
    "event: ",
    "id: ",
    "retry: 12",
    ": c",
    ":",
    " ",
    "x",
    "é",
    "😀",
    "日",
  ],
  ...["\n", "\n", "\n\n", "\r", "\r\n", "\r\r", "\r\n\r\n", "\ufeff", "\0", '{"a":1}'],
);
const stream = fc.tuple(
  fc.array(piece, { maxLength: 40 }).map((pieces) => encoder.encode(pieces.join(""))),
  fc.array(fc.nat(30), { maxLength: 20 }),
);

property(
  "10,000 random streams: any cutting equals the whole, and the standard",
  stream,
  (value) => {
    const [bytes, sizes] = value;
    const chunks: Uint8Array[] = [];
    let from = 0;
    for (const size of sizes) chunks.push(bytes.subarray(from, from += size));
    chunks.push(bytes.subarray(from));
    const whole = parse([bytes]);
    assert.deepEqual(whole, reference(new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes)));
    assert.deepEqual(parse(chunks), whole);
    assert.deepEqual(parse(bytewise(bytes)), whole);
  },
  { runs: 10_000 },
);

property(
  "a frame comes back as it was",
  fc.record({
    data: fc.string({ unit: "grapheme" }).map((text) => text.replaceAll("\r", "\n")),
    event: fc.constantFrom(undefined, "add", "é"),
    id: fc.constantFrom(undefined, 12, "abc"),
  }),
  ({ data, event, id }) => {
    const frame = {
      data,
      ...(event === undefined ? {} : { event }),
      ...(id === undefined ? {} : { id }),
    };
    const wanted = { event: event ?? "message", data, id: String(id ?? "") };
    assert.deepEqual(parse([encodeSseComment("hi"), encodeSseFrame(frame)]), [wanted]);
  },
);

Deno.test("a frame cannot be forged through event, id or comment", () => {
  for (const end of ["\n", "\r", "\r\n"]) {
    assert.throws(() => encodeSseFrame({ data: "", id: `1${end}data: x` }), HubError);
    assert.throws(() => encodeSseFrame({ data: "", event: `a${end}` }), HubError);
    assert.throws(() => encodeSseComment(`a${end}`), HubError);
  }
});

const isMalformed = (error: unknown) =>
  error instanceof HubError && error.code === "upstream_malformed";

Deno.test("bounds: events, data lines and other lines, cut anywhere", () => {
  const bounds = { maxEventLength: 20, maxLineLength: 30 };
  const cases: [text: string, delivered: number][] = [
    [`data: ok\n\ndata: ${"x".repeat(21)}\n\n`, 1],
    [`data: ok\n\ndata: ${"x".repeat(27)}`, 1],
    [`data: ${"x".repeat(10)}\ndata: ${"x".repeat(10)}\n\n`, 0],
    [`data: ok\n\n: ${"c".repeat(40)}`, 1],
    [`data: ok\n\n${"y".repeat(31)}\n`, 1],
  ];
  for (const [text, delivered] of cases) {
    const bytes = encoder.encode(text);
    for (const chunks of [[bytes], bytewise(bytes)]) {
      const events: SseEvent[] = [];
      const parser = createSseParser({ ...bounds, onEvent: (event) => events.push(event) });
      assert.throws(() => chunks.forEach((chunk) => parser.push(chunk)), isMalformed, text);
      assert.equal(events.length, delivered, text);
      assert.throws(() => parser.push(encoder.encode("data: late\n\n")), isMalformed);
      assert.throws(() => parser.end(), isMalformed);
    }
  }
  const fits = `data: ${"x".repeat(20)}\n\n: ${"c".repeat(28)}\ndata: ${"x".repeat(9)}\ndata: ${
    "x".repeat(10)
  }\n\n`;
  assert.equal(parseText(fits, bounds).length, 2);
});

Deno.test("an endless line is cut at the bound, not at the end", () => {
  const chunk = new Uint8Array(64 * 1024).fill(0x61);
  let pushed = 0;
  const parser = createSseParser({ onEvent() {} });
  assert.throws(() => {
    for (;;) {
      parser.push(chunk);
      pushed += chunk.length;
    }
  }, isMalformed);
  assert.ok(pushed <= 1024 * 1024, `${pushed}`);
});
