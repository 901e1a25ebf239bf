import assert from "node:assert/strict";
import { createIdSource } from "../../../src/core/id.ts";
import { SILENT_LOG } from "../../../src/core/log.ts";
import { createOperationTools } from "../../../src/headends/mcp_server/operation_tools.ts";
import { ServedSchemas } from "../../../src/headends/mcp_server/served_schemas.ts";
import type {
  ProgressReport,
  ServedTool,
  ToolCaller,
} from "../../../src/headends/mcp_server/served_tool.ts";
import { defineOperation, type Operation, Type } from "../../../src/operations/operation.ts";
import { toTool } from "../../../src/operations/to_tool.ts";
import { createFakeClock } from "../../support/fake_clock.ts";

type Source = Partial<Parameters<typeof defineOperation>[0]> & { name: string };
const define = (source: Source) =>
  defineOperation({
    namespace: "test",
    description: "Does",
    input: Type.Object({}),
    run: () => "done",
    ...source,
  }) as unknown as Operation;

function serve(...sources: Source[]) {
  const clock = createFakeClock();
  const observed: string[] = [];
  const source = createOperationTools({
    tools: () => sources.map((source) => toTool(define(source))),
    schemas: new ServedSchemas(SILENT_LOG),
    clock,
    ids: createIdSource(clock.now, (length) => new Uint8Array(length)),
    log: SILENT_LOG,
    observe: ({ tool, outcome }) => void observed.push(`${tool} ${outcome}`),
  });
  const told: ProgressReport[] = [];
  const stop = new AbortController();
  const caller: ToolCaller = {
    principal: { tenantId: "t", keyId: "key_1", keyName: "k", role: "user" },
    requestId: "req_1",
    span: null,
    signal: stop.signal,
    progress: (report) => void told.push(report),
  };
  const tools = source.list();
  const [first] = tools;
  return { tools, first: first as ServedTool, caller, clock, observed, told, stop };
}

Deno.test("operations for runs alone, or that ask a person, are not served", () => {
  const { tools } = serve(
    { name: "plain" },
    { name: "asks", approval: "ask" },
    { name: "inside", inRunsOnly: true },
  );
  assert.deepEqual(tools.map(({ name }) => name), ["test.plain"]);
  const [plain] = tools;
  assert.equal(plain?.isFor({}), true);
  assert.equal(plain?.isFor({ tools: ["test.*"] }), true);
  assert.equal(plain?.isFor({ tools: ["plain"] }), false);
});

Deno.test("effects become hints, results content of the protocol", async () => {
  const { tools, first, caller, observed, told } = serve({
    name: "pieces",
    effect: "pure",
    run: (_input, ctx) => {
      ctx.progress({ at: 1 });
      ctx.progress("half");
      ctx.progress({ progress: 3, total: 4, message: "most" });
      return [
        { type: "text", text: "one" },
        { type: "json", value: { two: 2 } },
        { type: "image", mediaType: "image/png", data: "AAAA" },
        { type: "resource", uri: "https://x.example/a", mediaType: "text/plain", title: "A" },
      ];
    },
  }, { name: "twice", effect: "idempotent" });
  assert.deepEqual(tools.map(({ annotations }) => annotations), [
    { readOnlyHint: true },
    { readOnlyHint: false, idempotentHint: true },
  ]);
  assert.deepEqual(await first.call({}, caller), {
    content: [
      { type: "text", text: "one" },
      { type: "text", text: '{"two":2}' },
      { type: "image", data: "AAAA", mimeType: "image/png" },
      { type: "resource_link", uri: "https://x.example/a", name: "A", mimeType: "text/plain" },
    ],
  });
  assert.deepEqual(told, [
    { message: '{"at":1}' },
    { message: "half" },
    { progress: 3, total: 4, message: "most" },
  ]);
  assert.deepEqual(observed, ["test.pieces succeeded"]);
});

Deno.test("failures, deadlines and cancellations are errors in words", async () => {
  const failing = serve({ name: "fails", run: () => Promise.reject(new Error("no luck")) });
  await assert.rejects(failing.first.call({}, failing.caller), /no luck/);
  assert.deepEqual(failing.observed, ["test.fails failed"]);

  const never = { run: () => new Promise<string>(() => {}) };
  const late = serve({ name: "late", timeoutMs: 1000, ...never });
  const waiting = late.first.call({}, late.caller);
  waiting.catch(() => {});
  await late.clock.advance(10_000);
  await assert.rejects(waiting, /1 s|1000 ms|in time/);
  assert.deepEqual(late.observed, ["test.late timed-out"]);

  const stopped = serve({ name: "stopped", ...never });
  const running = stopped.first.call({}, stopped.caller);
  running.catch(() => {});
  stopped.stop.abort();
  await stopped.clock.advance(10_000);
  await assert.rejects(running, { code: "aborted" });
});

Deno.test("a result that its schema promises and that is too long is an error, not half of it", async () => {
  const { first, caller } = serve({
    name: "long",
    output: Type.Object({ text: Type.String() }),
    run: () => ({ text: "x".repeat(2 * 1024 * 1024) }),
  });
  assert.equal(first.outputSchema?.["type"], "object");
  await assert.rejects(first.call({}, caller), /too long/);
});
