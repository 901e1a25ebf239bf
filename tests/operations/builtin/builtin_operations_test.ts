import assert from "node:assert/strict";
import type { Json, JsonObject } from "../../../src/core/json.ts";
import { SILENT_LOG } from "../../../src/core/log.ts";
import type { UIMessage } from "../../../src/core/ui_message.ts";
import { createBuiltinOperations } from "../../../src/operations/builtin/builtin_operations.ts";
import { boundResult } from "../../../src/operations/bound_result.ts";
import { createRegistry } from "../../../src/operations/registry.ts";
import { createFakeClock } from "../../support/fake_clock.ts";
import { findStrictRefusals } from "../openai_rules.ts";
import { createToolContext } from "../tool_context.ts";

const messages: UIMessage[] = [
  {
    id: "msg_1",
    role: "user",
    parts: [{ type: "text", id: "t", text: "My dog is called Rex", state: "done" }],
  },
  {
    id: "msg_2",
    role: "assistant",
    parts: [
      { type: "reasoning", id: "r", text: "secret rex thoughts", state: "done" },
      {
        type: "tool",
        toolCallId: "call_1",
        toolName: "pets.find",
        state: "result",
        step: 0,
        input: { name: "Rex" },
        output: { breed: "Beagle" },
      },
    ],
  },
  {
    id: "msg_3",
    role: "user",
    parts: [{ type: "text", id: "t", text: `${"x ".repeat(300)}REX barks`, state: "done" }],
  },
];

function createHub(blobs: Record<string, string> = {}) {
  const clock = createFakeClock(Date.UTC(2026, 6, 4, 22, 30, 5));
  const controller = new AbortController();
  const { context, progressed } = createToolContext(clock, controller.signal);
  const scopes: Json[] = [];
  const registry = createRegistry({
    operations: createBuiltinOperations({
      readBlob: (ref, scope) => {
        scopes.push({ ref, ...scope });
        return Promise.resolve(blobs[ref] ?? null);
      },
      readMessages: (scope) => {
        scopes.push({ ...scope });
        return Promise.resolve(messages);
      },
    }),
    clock,
    log: SILENT_LOG,
  });
  const run = (name: string, input: JsonObject) => registry.execute(`hub.${name}`, input, context);
  const output = async (name: string, input: JsonObject) => {
    const outcome = await run(name, input);
    assert.ok(outcome.ok, outcome.ok ? "" : outcome.errorText);
    return outcome.output;
  };
  return { registry, run, output, clock, controller, progressed, scopes };
}

Deno.test("all built-in operations are pure, strict and described", () => {
  const tools = createHub().registry.list();
  assert.deepEqual(tools.map(({ name }) => name), [
    "hub.calculate",
    "hub.current_time",
    "hub.read_result",
    "hub.search_history",
    "hub.wait",
  ]);
  for (const { name, effect, strict, parameters } of tools) {
    assert.equal(effect, "pure", name);
    assert.equal(strict, true, name);
    assert.deepEqual(findStrictRefusals(parameters), [], name);
  }
});

Deno.test("current_time tells time, weekday and offset of a zone", async () => {
  const { output, run } = createHub();
  assert.deepEqual(await output("current_time", { timeZone: null }), {
    iso: "2026-07-04T22:30:05+00:00",
    utc: "2026-07-04T22:30:05.000Z",
    weekday: "Saturday",
    timeZone: "UTC",
    unixSeconds: 1783204205,
  });
  const vienna = await output("current_time", { timeZone: "Europe/Vienna" }) as JsonObject;
  assert.deepEqual([vienna.iso, vienna.weekday], ["2026-07-05T00:30:05+02:00", "Sunday"]);
  const kathmandu = await output("current_time", { timeZone: "Asia/Kathmandu" }) as JsonObject;
  assert.equal(kathmandu.iso, "2026-07-05T04:15:05+05:45");
  const wrong = await run("current_time", { timeZone: "Mars/Olympus" });
  assert.ok(!wrong.ok);
  assert.match(wrong.errorText, /no time zone "Mars\/Olympus"/);
});

Deno.test("calculate gives the number, and says when it is rounded", async () => {
  const { output, run } = createHub();
  assert.deepEqual(await output("calculate", { expression: "2 * 21" }), {
    expression: "2 * 21",
    result: 42,
  });
  const big = await output("calculate", { expression: "2 ^ 100" }) as JsonObject;
  assert.match(String(big.note), /Rounded/);
  const wrong = await run("calculate", { expression: "1 /" });
  assert.ok(!wrong.ok && wrong.status === "failed");
});

Deno.test("wait runs on the clock and stops with the run", async () => {
  const { run, clock, controller, progressed } = createHub();
  const waited = run("wait", { seconds: "2.5" });
  await clock.advance(2500);
  const outcome = await waited;
  assert.ok(outcome.ok);
  assert.equal(outcome.output, "Waited 2.5 seconds");
  assert.deepEqual(progressed, [{ waitingSeconds: 2.5 }]);
  const stopped = run("wait", { seconds: 60 });
  await clock.advance(1000);
  controller.abort("stopped");
  assert.equal((await stopped).status, "aborted");
  assert.equal(clock.pending(), 0);
  await assert.rejects(createHub().run("wait", { seconds: 61 }), /at most 60/);
});

Deno.test("read_result reads numbered lines, pages and finds, within the caller's session", async () => {
  const lines = Array.from(
    { length: 5000 },
    (_, n) => `row ${n + 1}${n % 1000 ? "" : " Alpha (a+)+"}`,
  );
  const { output, run, scopes } = createHub({ blob_1: lines.join("\n") });
  assert.equal(
    await output("read_result", { ref: "blob_1", offset: 4999 }),
    "4999: row 4999\n5000: row 5000\n(2 lines of 5000 lines from 4999; that is the end)",
  );
  assert.equal(
    await output("read_result", { ref: "blob_1", grep: "ALPHA (a+", offset: null, limit: 2 }),
    "1: row 1 Alpha (a+)+\n1001: row 1001 Alpha (a+)+\n" +
      "(2 matching lines of 5000 lines from 1; go on with offset 1002)",
  );
  const gone = await run("read_result", { ref: "blob_2" });
  assert.ok(!gone.ok);
  assert.match(gone.errorText, /No kept result "blob_2" in this session/);
  assert.deepEqual(scopes.at(-1), { ref: "blob_2", tenantId: "ten_1", sessionId: "ses_1" });
});

Deno.test("everything that a cut result leaves out can be read, also of one huge line, and is never cut again", async () => {
  const text = `${"é".repeat(300_000)}\nend`;
  const { result } = await boundResult({ content: [{ type: "text", text }] }, {
    saveText: () => Promise.resolve("blob_1"),
  });
  const [piece] = result.content;
  assert.ok(piece?.type === "text" && /ref "blob_1"/.test(piece.text));
  const { run } = createHub({ blob_1: text });
  let offset = 1;
  let read = "";
  for (let page = 0; page < 100; page++) {
    const outcome = await run("read_result", { ref: "blob_1", offset, limit: 1992 });
    assert.ok(outcome.ok && outcome.ref === null);
    const shown = String(outcome.output).split("\n");
    const remark = shown.pop() ?? "";
    read += shown.map((line) => line.replace(/^\d+: /, "")).join("");
    const next = /offset (\d+)\)$/.exec(remark)?.[1];
    if (next === undefined) break;
    assert.ok(Number(next) > offset);
    offset = Number(next);
  }
  assert.equal(read, text.replace("\n", ""));
});

Deno.test("search_history finds all words, newest first, and leaves reasoning out", async () => {
  const { output, scopes } = createHub();
  const all = await output("search_history", { query: "rex" }) as JsonObject;
  assert.equal(all.searched, 3);
  const found = all.found as JsonObject[];
  assert.deepEqual(found.map(({ messageId }) => messageId), ["msg_3", "msg_2", "msg_1"]);
  assert.match(String(found[0]?.excerpt), /^….*REX barks$/);
  assert.match(String(found[1]?.excerpt), /Beagle/);
  assert.deepEqual(scopes, [{ tenantId: "ten_1", sessionId: "ses_1" }]);
  const both = await output("search_history", { query: "dog REX", limit: 1 }) as JsonObject;
  assert.deepEqual((both.found as JsonObject[]).map(({ messageId }) => messageId), ["msg_1"]);
  const none = await output("search_history", { query: "secret thoughts" }) as JsonObject;
  assert.deepEqual(none.found, []);
});
