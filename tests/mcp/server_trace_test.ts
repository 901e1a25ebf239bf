import assert from "node:assert/strict";
import { ServerTrace, ServerTraces } from "../../src/mcp/server_trace.ts";

const create = () => new ServerTrace({ now: () => 0, redact: (text) => text });

Deno.test("a trace keeps the last entries, each cut, and their numbers go on", () => {
  const trace = create();
  for (let at = 0; at < 600; at++) trace.note("sent", "x".repeat(5000));
  assert.ok(trace.entries.length <= 500);
  const chars = trace.entries.reduce((sum, { text }) => sum + text.length, 0);
  assert.ok(chars <= 512 * 1024);
  assert.equal(trace.entries.at(-1)?.number, 600);
  assert.match(trace.entries[0]?.text ?? "", /x… \(5000 characters\)$/);
});

Deno.test("hidden values stand in no entry, with a scheme or without, in JSON, or in two pieces of stderr", () => {
  const trace = create();
  trace.hide(["Bearer secret-one", 'quo"ted']);
  trace.note("received", `a secret-one ${JSON.stringify({ v: 'quo"ted' })}`);
  trace.stderr("token sec");
  trace.stderr("ret-one\nnext");
  const text = trace.entries.map(({ text }) => text).join("\n");
  assert.equal(text, 'a [redacted] {"v":"[redacted]"}\ntoken [redacted]');
});

Deno.test("of a long text only the beginning is looked at, and no secret is cut in two there", () => {
  const looked: number[] = [];
  const redact = (text: string) => {
    looked.push(text.length);
    return text.replace(/"token":"[^"]*/g, '"token":"[redacted]').replaceAll("known", "[redacted]");
  };
  const noted = (text: string) => {
    looked.length = 0;
    trace.note("received", text);
    return trace.entries.at(-1)?.text ?? "";
  };
  const trace = new ServerTrace({ now: () => 0, redact });
  const secret = `secret-${"s".repeat(50_000)}`;
  trace.hide([secret]);
  const huge = 16 * 1024 * 1024;
  assert.match(noted("x".repeat(huge)), /^x{4096}… \(16777216 characters\)$/);
  assert.ok(Math.max(...looked) <= 128 * 1024, looked.join());

  // Whatever of the text is cleaned away, a secret at the end of what is looked at is not shown in part.
  for (let before = 0; before < 250_000; before += 4999) {
    for (const filler of ["known".repeat(before / 5), "k".repeat(before)]) {
      const shown = noted(`${filler}${secret}${"y".repeat(300_000)}`);
      assert.ok(!shown.includes("sss"), `${filler.length}`);
    }
  }
  assert.ok(noted(`{"a":1,"token":"${"t".repeat(huge)}"}`).length < 100);
  assert.ok(Math.max(...looked) <= 2 * 1024 * 1024, looked.join());
  assert.equal(
    noted(`{"a":1,"token":"${"t".repeat(5000)}"}`),
    '{"a":1,"token":"[redacted]"}',
  );
});

Deno.test("servers are traced that say so, or that the variable names", () => {
  const servers = { a: { trace: true }, b: { trace: false }, c: { trace: false } };
  const traced = (wanted: string | undefined) => {
    const traces = new ServerTraces(servers, { wanted, now: () => 0, redact: (text) => text });
    return Object.keys(servers).filter((name) => traces.of(name) !== undefined);
  };
  assert.deepEqual(traced(undefined), ["a"]);
  assert.deepEqual(traced("c, x"), ["a", "c"]);
  assert.deepEqual(traced("1"), ["a", "b", "c"]);
});
