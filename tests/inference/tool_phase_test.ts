import assert from "node:assert/strict";
import type { Json } from "../../src/core/json.ts";
import { settle } from "../support/fake_clock.ts";
import { asks, finishOf, makeTool, type Rig, says, startRig, textResult } from "./loop_rig.ts";

interface Gate {
  running: number[];
  most: number;
  open(id: number): Promise<void>;
}

/** Tools that wait until the test lets them go, and count who runs beside whom. */
function createGate(): Gate & {
  tool(name: string, sequential?: boolean): ReturnType<typeof makeTool>;
} {
  const waiting = new Map<number, () => void>();
  const gate: Gate = {
    running: [],
    most: 0,
    async open(id) {
      await settle();
      const go = waiting.get(id);
      assert.ok(go, `call ${id} does not run; running: ${gate.running}`);
      go();
      await settle();
    },
  };
  return Object.assign(gate, {
    tool: (name: string, sequential = false) =>
      makeTool(name, async ({ id }) => {
        const number = Number(id);
        gate.running.push(number);
        gate.most = Math.max(gate.most, gate.running.length);
        await new Promise<void>((resolve) => waiting.set(number, resolve));
        gate.running = gate.running.filter((one) => one !== number);
        return textResult(`result ${number}`);
      }, { sequential }),
  });
}

const ids = (count: number, name: string): [string, Json][] =>
  Array.from({ length: count }, (_, id) => [name, { id }]);

function resultTexts(rig: Rig): string[] {
  const last = rig.requests.at(-1)?.messages.at(-1);
  return last?.role === "tool" ? last.results.map((result) => result.text) : [];
}

Deno.test("at most eight tools run at once, the others follow in call order as places get free", async () => {
  const gate = createGate();
  const rig = startRig({
    answers: [asks(...ids(11, "test_gate")), says("Done")],
    tools: [gate.tool("test.gate")],
  });
  await settle();
  assert.deepEqual(gate.running, [0, 1, 2, 3, 4, 5, 6, 7]);
  assert.equal(rig.journal.get("call_9")?.state, "ready");
  await gate.open(5);
  assert.deepEqual(gate.running, [0, 1, 2, 3, 4, 6, 7, 8]);
  assert.deepEqual(rig.states.get("call_9"), ["ready", "started"]);
  for (const id of [8, 7, 6, 4, 3, 2, 1, 0, 10, 9]) await gate.open(id);
  await rig.done;
  assert.equal(gate.most, 8);
  assert.deepEqual(resultTexts(rig), ids(11, "").map((_, id) => `result ${id}`));
});

Deno.test("the agent's settings say how many tools run at once", async () => {
  const gate = createGate();
  const rig = startRig({
    answers: [asks(...ids(5, "test_gate")), says("Done")],
    tools: [gate.tool("test.gate")],
    settings: { maxParallelTools: 2 },
  });
  await settle();
  assert.deepEqual(gate.running, [0, 1]);
  for (const id of [1, 0, 2, 3, 4]) await gate.open(id);
  await rig.done;
  assert.equal(gate.most, 2);
});

Deno.test("a sequential tool runs alone, and calls keep their order around it", async () => {
  const gate = createGate();
  const rig = startRig({
    answers: [
      asks(
        ["test_free", { id: 0 }],
        ["test_free", { id: 1 }],
        ["test_alone", { id: 2 }],
        ["test_alone", { id: 3 }],
        ["test_free", { id: 4 }],
        ["test_free", { id: 5 }],
      ),
      says("Done"),
    ],
    tools: [gate.tool("test.free"), gate.tool("test.alone", true)],
  });
  await settle();
  assert.deepEqual(gate.running, [0, 1]);
  await gate.open(0);
  assert.deepEqual(gate.running, [1]);
  await gate.open(1);
  assert.deepEqual(gate.running, [2]);
  await gate.open(2);
  assert.deepEqual(gate.running, [3]);
  await gate.open(3);
  assert.deepEqual(gate.running, [4, 5]);
  await gate.open(5);
  await gate.open(4);
  await rig.done;
  assert.deepEqual(resultTexts(rig), [0, 1, 2, 3, 4, 5].map((id) => `result ${id}`));
});

Deno.test("progress of a sequential tool lets no other call start", async () => {
  const seen: string[] = [];
  const rig = startRig({
    answers: [asks(["test_alone", {}], ["test_free", {}]), says("Done")],
    tools: [
      makeTool("test.alone", async (_input, { progress, clock }) => {
        seen.push("alone begins");
        progress(1);
        await new Promise<void>((resolve) => clock.setTimer(resolve, 100));
        seen.push("alone ends");
        return textResult("");
      }, { sequential: true }),
      makeTool("test.free", () => {
        seen.push("free");
        return textResult("");
      }),
    ],
  });
  await rig.clock.advance(100);
  await rig.done;
  assert.deepEqual(seen, ["alone begins", "alone ends", "free"]);
  assert.equal(rig.progress.length, 1);
});

Deno.test("a failure cancels no sibling, and a tool that changes its input changes no record", async () => {
  const rig = startRig({
    answers: [asks(["test_fail", {}], ["test_change", { list: [1] }]), says("Done")],
    tools: [
      makeTool("test.fail", () => Promise.reject(new Error("no"))),
      makeTool("test.change", async (input) => {
        await Promise.resolve();
        (input["list"] as Json[]).push(2);
        return textResult("changed");
      }),
    ],
  });
  await rig.done;
  assert.deepEqual(resultTexts(rig), ["no", "changed"]);
  assert.deepEqual(rig.journal.get("call_2")?.input, { list: [1] });
  const given = rig.events.find((event) =>
    event.type === "tool-input-available" && event.toolCallId === "call_2"
  );
  assert.ok(given?.type === "tool-input-available");
  assert.deepEqual(given.input, { list: [1] });
});

Deno.test("an executor that rejects is a failed tool, and progress after the end is dropped", async () => {
  let late = (_data: Json) => {};
  const rig = startRig({
    answers: [asks(["test_odd", {}]), says("Done")],
    tools: [makeTool("test.odd", () => textResult(""))],
    run: {
      executeTool(_tool, _input, context) {
        for (let n = 0; n < 300; n++) context.progress(n);
        late = context.progress;
        return Promise.reject(new Error("out of order"));
      },
    },
    onBatch: () => late("late"),
  });
  await rig.done;
  assert.deepEqual(resultTexts(rig), ["The tool test.odd failed: out of order"]);
  assert.equal(rig.progress.length, 256);
  assert.equal(finishOf(rig).finishReason, "stop");
});

for (const [effect, state] of [["effect", "unknown"], ["pure", "failed"]] as const) {
  Deno.test(`a tool of class ${effect} past its deadline is a failed result, in the journal ${state}, and the run goes on`, async () => {
    const rig = startRig({
      answers: [asks(["test_slow", {}]), says("Done")],
      tools: [makeTool("test.slow", () => new Promise(() => {}), { timeoutMs: 1000, effect })],
    });
    await rig.clock.advance(1000);
    await rig.clock.advance(2000);
    await rig.done;
    assert.match(resultTexts(rig)[0] ?? "", /did not end within 1000 ms/);
    assert.equal(rig.journal.get("call_1")?.durationMs, 3000);
    assert.equal(rig.journal.get("call_1")?.state, state);
  });
}

Deno.test("NUL and lone surrogates reach neither journal nor model", async () => {
  const rig = startRig({
    answers: [asks(["test_odd", '{"a":"\\ud800x\\u0000"}']), says("Done")],
    tools: [makeTool("test.odd", ({ a }) => textResult(`${a}|\udc00\0|`))],
  });
  await rig.done;
  const row = rig.journal.get("call_1");
  assert.deepEqual(row?.input, { a: "\ufffdx\ufffd" });
  assert.equal(row?.output, "\ufffdx\ufffd|\ufffd\ufffd|");
});
