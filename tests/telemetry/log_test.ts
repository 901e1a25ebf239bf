import assert from "node:assert/strict";
import fc from "fast-check";
import { HubError } from "../../src/core/error.ts";
import type { LogLevel } from "../../src/core/log.ts";
import { createLog, type LogOptions } from "../../src/telemetry/log.ts";
import { createRedactor } from "../../src/telemetry/redact.ts";
import { createFakeClock } from "../support/fake_clock.ts";
import { property } from "../support/property.ts";

/** A log into a list, with what was written parsed. */
function memoryLog(options: Partial<LogOptions> & { secrets?: string[] } = {}) {
  const lines: string[] = [];
  const log = createLog({
    level: "info",
    format: "json",
    write: (line) => lines.push(line),
    clock: createFakeClock(Date.UTC(2027, 0, 15, 8, 30, 0, 7)),
    redact: createRedactor({ secrets: options.secrets ?? [] }).redact,
    ...options,
  });
  return {
    log,
    lines,
    entry: (index = 0): Record<string, unknown> => JSON.parse(lines[index] ?? "null"),
  };
}

Deno.test("a line is JSON with time, level, message and fields", () => {
  const { log, lines } = memoryLog();
  log.info("Hub listens", { port: 4141, host: "::1", list: [1, "a", null], none: undefined });
  assert.deepEqual(lines, [
    '{"time":"2027-01-15T08:30:00.007Z","level":"info","message":"Hub listens","port":4141,"host":"::1","list":[1,"a",null]}',
  ]);
});

Deno.test("levels below the log's own are not written and cost nothing", () => {
  const levels: LogLevel[] = ["debug", "info", "warn", "error"];
  for (const [index, level] of levels.entries()) {
    const { log, lines } = memoryLog({ level });
    for (const name of levels) log[name](name);
    assert.deepEqual(lines.map((line) => JSON.parse(line).message), levels.slice(index));
  }
  const { log } = memoryLog();
  let read = 0;
  log.debug("off", {
    get expensive() {
      read++;
      return "x";
    },
  });
  assert.equal(read, 0);
});

Deno.test("bound fields are in every line, later ones win", () => {
  const { log, entry } = memoryLog();
  const child = log.with({ requestId: "req_1", a: 1 }).with({ a: 2 });
  child.warn("one", { b: 3 });
  log.warn("two");
  assert.deepEqual([entry(0).requestId, entry(0).a, entry(0).b], ["req_1", 2, 3]);
  assert.equal(entry(1).requestId, undefined);
});

Deno.test("fields cannot take the place of time, level and message", () => {
  const { log, entry } = memoryLog();
  log.info("real", { message: "other", level: "fatal", time: 0 });
  assert.equal(entry().message, "real");
  assert.equal(entry().level, "info");
  assert.deepEqual([entry().message_, entry().level_, entry().time_], ["other", "fatal", 0]);
});

Deno.test("errors show code, message, details and causes; stacks only at debug", () => {
  const cause = Object.assign(new TypeError("connection reset"), { code: "ECONNRESET" });
  const error = new HubError("upstream_cut", "The answer ended early", {
    cause: new Error("read failed", { cause }),
    details: { provider: "openai", apiKey: "k" },
  });
  const quiet = memoryLog();
  quiet.log.error("failed", { error });
  assert.deepEqual(quiet.entry().error, {
    code: "upstream_cut",
    message: "The answer ended early",
    details: { provider: "openai", apiKey: "[redacted]" },
    causes: [
      { code: "Error", message: "read failed" },
      { code: "ECONNRESET", message: "connection reset" },
    ],
  });
  const loud = memoryLog({ level: "debug" });
  loud.log.info("failed", { inner: { error } });
  const inner = loud.entry().inner as { error: { stack: string } };
  assert.match(inner.error.stack, /log_test\.ts/);
});

Deno.test("causes may be many, circular, or no errors at all", () => {
  const { log, entry } = memoryLog();
  const loop = new Error("a");
  loop.cause = new AggregateError([new Error("b"), "text", loop], "many");
  log.error("failed", { error: loop, thrown: "just text" });
  assert.deepEqual((entry().error as { causes: unknown[] }).causes, [
    { code: "AggregateError", message: "many" },
    { code: "Error", message: "b" },
    { code: "string", message: "text" },
  ]);
  let deep = new Error("0");
  for (let n = 1; n < 100; n++) deep = new Error(String(n), { cause: deep });
  log.error("failed", { error: deep });
  assert.ok((entry(1).error as { causes: unknown[] }).causes.length <= 8);
});

Deno.test("values that JSON does not know are named", () => {
  const { log, entry } = memoryLog();
  const circular: Record<string, unknown> = { name: "x" };
  circular.self = circular;
  log.info("odd", {
    big: 10n,
    nan: NaN,
    date: new Date(0),
    url: new URL("http://a/b"),
    bytes: new Uint8Array(12),
    buffer: new ArrayBuffer(3),
    map: new Map([["a", 1]]),
    set: new Set([1]),
    headers: new Headers({ accept: "x", authorization: "Bearer y" }),
    fn: () => {},
    symbol: Symbol("s"),
    circular,
    bad: {
      get x() {
        throw new Error("no");
      },
    },
    json: { toJSON: () => ({ a: 1 }) },
    invalid: new Date(NaN),
  });
  const { time: _time, level: _level, message: _message, ...fields } = entry();
  assert.deepEqual(fields, {
    big: "10",
    nan: "NaN",
    date: "1970-01-01T00:00:00.000Z",
    url: "http://a/b",
    bytes: "[12 bytes]",
    buffer: "[3 bytes]",
    map: { a: 1 },
    set: [1],
    headers: { accept: "x", authorization: "[redacted]" },
    circular: { name: "x", self: "[circular]" },
    bad: "[unreadable]",
    json: { a: 1 },
    invalid: "[no time]",
  });
});

Deno.test("the same object twice is not a circle", () => {
  const { log, entry } = memoryLog();
  const shared = { a: 1 };
  log.info("twice", { x: shared, y: shared });
  assert.deepEqual([entry().x, entry().y], [{ a: 1 }, { a: 1 }]);
});

Deno.test("depth, length and width are bounded, with marks", () => {
  const { log, lines, entry } = memoryLog();
  let deep: unknown = "end";
  for (let n = 0; n < 20; n++) deep = { deep };
  log.info("big", { deep, list: Array.from({ length: 80 }, (_, n) => n) });
  assert.match(lines[0] ?? "", /"\[object\]"/);
  assert.equal((entry().list as unknown[]).at(-1), "[30 more]");
});

Deno.test("a line has at most 8 KiB, and says what was cut", () => {
  for (const unit of ["x", "é", "漢", "😀", "\u0001", '"', "\ud800"]) {
    const { log, lines, entry } = memoryLog();
    const long = unit.repeat(50_000);
    log.info(long, Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`field${n}`, long])));
    const line = lines[0] ?? "";
    assert.ok(new TextEncoder().encode(line).length <= 8 * 1024, unit);
    assert.match(String(entry().message), /\[cut/);
    assert.match(line, /\[cut: \d+ (characters|bytes)\]/);
    assert.equal(entry().level, "info");
    const pretty = memoryLog({ format: "pretty" });
    pretty.log.info(long, { long, longer: [long, long, long, long, long] });
    assert.ok(new TextEncoder().encode(pretty.lines[0]).length <= 16 * 1024, unit);
  }
});

Deno.test("many fields that do not fit are counted", () => {
  const { log, entry } = memoryLog();
  log.info(
    "m",
    Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`f${n}`.padEnd(300, "x"), n])),
  );
  assert.ok(Number(entry().fieldsCut) > 0);
});

Deno.test("a log never throws", () => {
  const broken = memoryLog({
    write: () => {
      throw new Error("EPIPE");
    },
  });
  broken.log.error("x");
  const { log, lines } = memoryLog();
  log.error("x", {
    hostile: new Proxy({}, {
      ownKeys() {
        throw new Error("no");
      },
    }),
  });
  assert.equal(lines.length, 1);
});

Deno.test("a secret that a cut would split does not show in part", () => {
  const secret = "s3cr3t-" + "abcdefghij".repeat(6);
  for (let place = 1900; place < 2100; place += 7) {
    const { log, lines } = memoryLog({ secrets: [secret] });
    const text = "x".repeat(place) + secret + "y".repeat(5000);
    log.info(text, { text, many: Array.from({ length: 40 }, () => text) });
    assert.ok(!(lines[0] ?? "").includes("s3cr3t-"), String(place));
  }
  // Redacting shortens the text before the cut: what comes closer must be whole too.
  const { log, lines } = memoryLog({ secrets: [secret] });
  log.info(`${secret} `.repeat(200));
  assert.ok(!(lines[0] ?? "").includes("s3cr3t-"));
});

Deno.test("pretty lines are for people", () => {
  const { log, lines } = memoryLog({ format: "pretty" });
  log.with({ requestId: "req_1" }).warn("Slow answer", { ms: 12.5, text: "two words", list: [1] });
  log.error("Failed", { error: new HubError("aborted", "The run was stopped") });
  assert.deepEqual(lines, [
    '08:30:00.007 WARN  Slow answer requestId=req_1 ms=12.5 text="two words" list=[1]',
    '08:30:00.007 ERROR Failed error={"code":"aborted","message":"The run was stopped"}',
  ]);
});

Deno.test("colours appear only when asked for", () => {
  const plain = memoryLog({ format: "pretty" });
  plain.log.error("x", { a: 1 });
  assert.ok(!plain.lines[0]?.includes("\x1b"));
  const coloured = memoryLog({ format: "pretty", colour: true });
  coloured.log.error("x", { a: 1 });
  assert.ok(coloured.lines[0]?.includes("\x1b[31mERROR\x1b[0m x"));
});

Deno.test("nobody can fake a line or steer the terminal", () => {
  const attack = "x\n08:30:00.007 ERROR fake \x1b[2J\x9b31m\u2028\u202e\r";
  const { log, lines } = memoryLog({ format: "pretty", level: "debug" });
  const error = new Error(attack);
  error.stack = `Error: ${attack}\n    at place`;
  log.info(attack, { [attack]: attack, deep: { [attack]: attack }, error });
  const text = lines.join("\n");
  assert.doesNotMatch(text, /(?!\n)\p{Cc}|[\u2028\u2029\u202a-\u202e]/u);
  for (const line of text.split("\n").slice(1)) assert.match(line, /^ {4}/);
});

Deno.test("stacks follow a pretty line at level debug", () => {
  const { log, lines } = memoryLog({ format: "pretty", level: "debug" });
  log.error("Failed", { error: new Error("boom") });
  assert.match(
    lines[0] ?? "",
    /^08:30:00.007 ERROR Failed error=\{"code":"Error","message":"boom"\}\n {4}Error: boom\n {4}at /,
  );
});

/** Canaries in every place that a log line may come to hold. */
function plant(secret: string): [message: string, fields: Record<string, unknown>] {
  const cause = new Error(`cause ${secret}`, { cause: { note: secret } });
  const error = new HubError("upstream_error", `Upstream said ${secret}`, {
    cause: new AggregateError([cause, secret], secret),
    details: { body: { nested: [secret] } },
  });
  error.stack = `Error: ${secret}\n    at ${secret}`;
  return [`message ${secret}`, {
    error,
    plain: secret,
    nested: { list: [[{ deep: `x${secret}y` }]] },
    [`key ${secret}`]: 1,
    url: new URL(
      `https://user:${encodeURIComponent(secret)}@host/path?api_key=${encodeURIComponent(secret)}`,
    ),
    urlText: `postgres://u:${encodeURIComponent(secret)}@db/x`,
    json: JSON.stringify({ apiKey: secret, body: JSON.stringify({ password: secret }) }),
    map: new Map([["authorization", `Bearer ${secret}`], [secret, "x"]]),
    set: new Set([secret]),
    basic: `Basic ${new TextEncoder().encode(`user:${secret}`).toBase64()}`,
    toJSON: { toJSON: () => secret },
  }];
}

const SECRETS = [
  "canary-0123456789",
  'canary "quoted" \\ back',
  "canary\nwith lines",
  "canary-ünïcode-😀",
  "sk-canary0123456789abcdef",
];

/** Stacks name the checkout's folder, whose name may look like a secret. */
function withoutCheckout(text: string): string {
  return text.replaceAll(new URL("../../", import.meta.url).href, "");
}

for (const format of ["json", "pretty"] as const) {
  for (const level of ["info", "debug"] as const) {
    Deno.test(`known secrets never come out (${format}, ${level})`, () => {
      for (const secret of SECRETS) {
        const { log, lines } = memoryLog({ format, level, secrets: [secret] });
        const [message, fields] = plant(secret);
        log.with({ bound: secret }).error(message, fields);
        const text = withoutCheckout(lines.join("\n"));
        assert.ok(text.includes("[redacted]"));
        assert.ok(!/canary/i.test(text.replaceAll("_", "")), text);
      }
    });
  }

  Deno.test(`unknown secrets behind a telling name or form never come out (${format})`, () => {
    const { log, lines } = memoryLog({ format, level: "debug" });
    log.info("request with authorization: Bearer canary1 and x-api-key=canary2", {
      authorization: "canary3",
      headers: { "x-api-key": "canary4", cookie: "a=canary5", accept: "fine" },
      list: [["Authorization", "Bearer canary6"], ["accept", "fine"]],
      objects: [{ name: "x-api-key", value: "canary7" }],
      real: new Headers({ authorization: "Basic canary8", "x-ok": "fine" }),
      config: { openai: { apiKey: "canary9" }, database: { password: ["canary10"] } },
      body: '{"token":"canary11","n":1}',
      url: "https://u:canary12@host/?access_token=canary13",
      error: new Error("refused: password=canary14", { cause: new Error("Bearer canary15_x") }),
      client_secret: 12345678901234,
      key: "lh_canary16canary16",
    });
    const text = withoutCheckout(lines.join("\n"));
    assert.doesNotMatch(text, /canary/);
    assert.doesNotMatch(text, /12345678901234/);
    assert.match(text, /fine/);
  });
}

property(
  "any value becomes one line of JSON",
  fc.tuple(
    fc.string({ unit: "binary" }),
    fc.dictionary(fc.string({ unit: "binary" }), fc.anything()),
  ),
  ([message, fields]) => {
    const { log, lines } = memoryLog({ level: "debug" });
    log.info(message, fields);
    assert.equal(lines.length, 1);
    assert.ok(!lines[0]?.includes("\n"));
    JSON.parse(lines[0] ?? "");
  },
  { runs: 500 },
);
