import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import { createFold } from "../../src/core/fold.ts";
import type { HubEvent, SequencedEvent } from "../../src/core/event.ts";
import type { JsonObject } from "../../src/core/json.ts";
import { MAX_TOOL_RESULT_BYTES } from "../../src/core/limits.ts";
import { isLostCalls } from "../../src/core/model_use.ts";
import { OUTCOME_UNKNOWN } from "../../src/inference/resume.ts";
import { logOf } from "../support/log_of.ts";
import {
  budgetOf,
  CONCLUDES,
  CONCLUSION,
  type Done,
  ENTRIES,
  type Kill,
  KILLS,
  STEERING,
  stepsOf,
  USAGE,
  withTask,
  WORKSPACE_AFTER,
} from "../support/whole_task.ts";

const NONE: ReadonlySet<Kill> = new Set();
const ALL: ReadonlySet<Kill> = new Set(KILLS);
const STEP_USAGE = { ...USAGE, totalTokens: 100, cachedTokens: 0, reasoningTokens: 0 };
const NOTES_HASH = "49992692eacd8fb2";
const DENIED = "Not executed: a person denied it: keep the notes";
const WHOLE = `exit code 0 after some ms\n--- stdout\n${ENTRIES.trimEnd()}`;

/** Tools of the steps as the hub calls them: their names on the wire have no dots. */
const toolName = (wire: string) => wire.replace("_", ".");
const given = (input: JsonObject) =>
  Object.fromEntries(Object.entries(input).filter(([, value]) => value !== null));

/** What differs from run to run has a name: ids by kind and order, times and how long a command took. */
function createNames() {
  const names = new Map<string, string>();
  const nameOf = (id: string, kind: string) => {
    const before = [...names.values()].filter((name) => name.startsWith(`${kind} `)).length;
    const name = names.get(id) ?? `${kind} ${before + 1}`;
    names.set(id, name);
    return name;
  };
  return (text: string) =>
    text.replace(/\b(run|ses|msg|call|apr|blob|steer)_[0-9a-f]{32}\b/g, nameOf)
      .replace(/"id":"p(\d+)"/g, (id) => `"id":"${nameOf(id, "part")}"`)
      .replace(/"expiresAt":"[^"]*"/g, '"expiresAt":"in time"')
      .replace(/after \d+ ms/g, "after some ms");
}

const placeOf = ({ toolCallId }: { toolCallId: string }) => Number(toolCallId.split(" ")[1]);

/** The log without what is void, its ids named, deltas that came in several reads as one, and results of one step by call. */
function exactLog(log: readonly SequencedEvent[]): HubEvent[] {
  const named = createNames();
  const exact: HubEvent[] = [];
  for (const { event: { ...event } } of log) {
    if (event.type === "step-reset") {
      exact.length = 1 + exact.findLastIndex(({ type }) => type === "step-start");
      continue;
    }
    const last = exact.at(-1);
    if (event.type === "text-delta" && last?.type === "text-delta") last.delta += event.delta;
    else if (event.type === "tool-input-delta" && last?.type === "tool-input-delta") {
      last.inputTextDelta += event.inputTextDelta;
    } else exact.push(event);
  }
  const events: HubEvent[] = exact.map((event) => JSON.parse(named(JSON.stringify(event))));
  const outputs = events.flatMap((event, at) => event.type === "tool-output-available" ? at : []);
  for (const at of outputs) {
    const [one, other] = [events[at], events[at + 1]];
    if (one?.type !== "tool-output-available" || other?.type !== one.type) continue;
    if (placeOf(one) > placeOf(other)) events.splice(at, 2, other, one);
  }
  return events;
}

/** The whole log, as it has to be. `built` is what became of the command, `cut` the result that was too large. */
function expectedLog(
  { built, cut, totals: { finishReason, prompt, completion, cost } }: {
    built: JsonObject | string;
    cut: string;
    totals: Totals;
  },
): HubEvent[] {
  const log: JsonObject[] = [
    { type: "start", messageId: "msg 1", runId: "run 1", sessionId: "ses 1", model: "one/m" },
  ];
  let calls = 0;
  let questions = 0;
  let ids: string[] = [];
  const steps = stepsOf("blob 1");
  const takesStep = (step: number) => {
    const wanted = (steps[step] ?? []).map(([name, input]) => ({
      toolName: toolName(name),
      input,
    }));
    const id = `part ${step + 1}`;
    ids = wanted.map(() => `call ${++calls}`);
    const isLast = step === CONCLUDES;
    log.push(
      { type: "step-start", step },
      { type: "text-start", id },
      { type: "text-delta", id, delta: isLast ? CONCLUSION : `Step ${step}.` },
      { type: "text-end", id },
      ...wanted.flatMap(({ toolName, input }, at) => [
        { type: "tool-input-start", toolCallId: ids[at] ?? "", toolName },
        {
          type: "tool-input-delta",
          toolCallId: ids[at] ?? "",
          inputTextDelta: JSON.stringify(input),
        },
      ]),
      ...wanted.map(({ toolName, input }, at) => ({
        type: "tool-input-available",
        toolCallId: ids[at] ?? "",
        toolName,
        input: given(input),
      })),
      {
        type: "step-finish",
        step,
        finishReason: isLast ? "stop" : "tool-calls",
        usage: STEP_USAGE,
      },
    );
  };
  const gives = (...ends: (string | JsonObject)[]) =>
    log.push(...ends.map((end, at) => ({
      toolCallId: ids[at] ?? "",
      ...typeof end === "string" ? { type: "tool-output-available", output: end } : end,
    })));
  const asks = (terms: JsonObject, answer: JsonObject) => {
    const { toolCallId = "", toolName = "", input = {} } = log.at(-2) ?? {};
    const approvalId = `apr ${++questions}`;
    log.push(
      {
        type: "tool-approval-request",
        approvalId,
        toolCallId,
        toolName,
        tier: "ask",
        ...terms,
        input,
        expiresAt: "in time",
      },
      { type: "tool-approval-response", approvalId, ...answer },
    );
  };
  const before = WORKSPACE_AFTER["build.sh"].replace("42", "41").trimEnd().split("\n");
  const diff = ["--- a/build.sh", "+++ b/build.sh", "@@ -1,4 +1,4 @@", "-price=41", "+price=42"]
    .concat(before.slice(1).map((line) => ` ${line}`)).join("\n");
  const runs = (tainted: string[], ...argv: string[]) =>
    asks(
      { risk: "high", tainted, preview: { kind: "command", argv, cwd: "." } },
      { approved: true, remember: "session" },
    );
  const numbered = (lines: string[]) => lines.map((line, at) => `${at + 1}: ${line}\n`).join("");

  takesStep(0);
  gives(
    `${
      numbered(["The price shall be 42."])
    }(lines 1 to 1 of 1; 23 bytes, hash ${NOTES_HASH}; that is the end)`,
    `${numbered(before)}(lines 1 to 4 of 4; 83 bytes, hash 4e68656cc30a30d3; that is the end)`,
  );
  takesStep(1);
  asks(
    { risk: "medium", tainted: ["file"], preview: { kind: "diff", path: "build.sh", diff } },
    { approved: true },
  );
  gives("Replaced once in build.sh (line 1); hash 4ecda995a667c17e");
  takesStep(2);
  const removal = `Removes notes.md for good: a file of 23 bytes, hash ${NOTES_HASH}`;
  asks(
    { risk: "high", tainted: ["file"], preview: { kind: "text", text: removal } },
    { approved: false, reason: "keep the notes" },
  );
  gives({ type: "tool-output-denied", errorText: DENIED });
  takesStep(3);
  runs(["file"], "sh", "build.sh");
  gives(built);
  takesStep(4);
  gives(
    `${numbered(["built"])}(lines 1 to 1 of 1; 6 bytes, hash 56f6e6304d02d413; that is the end)`,
  );
  takesStep(5);
  runs(["file", "shell"], "cat", "entries.txt");
  gives(cut);
  takesStep(6);
  gives(
    "2500: entry 2498, äöü\n2501: entry 2499, äöü\n(2 lines of 5002 lines from 2500; go on with offset 2502)",
  );
  const data = { kind: "steer", text: STEERING, state: "applied" };
  log.push({ type: "data", name: "steering", id: "steer 1", data });
  takesStep(7);
  gives(
    "exit code 0 after some ms\n--- stdout\n5000 entries.txt",
    "4323: entry 4321, äöü\n(1 matching lines of 5002 lines from 1; that is the end)",
  );
  takesStep(CONCLUDES);
  log.push({
    type: "finish",
    finishReason,
    usage: {
      ...STEP_USAGE,
      promptTokens: prompt,
      completionTokens: completion,
      totalTokens: prompt + completion,
    },
    costMicros: cost,
    ...finishReason === "max-steps" ? { estimated: true } : {},
    metadata: { model: "m", provider: "one" },
  });
  return log as unknown as HubEvent[];
}

/** What stands in place of the result that was too large: its begin, what is left out, its end. */
function checkCut(output: string): void {
  const marker =
    /^\[… Lines (\d+) to (\d+) of 5002 are left out here; the whole result has (\d+) bytes and is kept as (blob_[0-9a-f]{32})\. Read it with hub\.read_result: ref "\4" and offset, limit or grep …\]$/m
      .exec(output) ?? assert.fail(output.slice(0, 200));
  const size = new TextEncoder().encode(output).length;
  assert.ok(size <= MAX_TOOL_RESULT_BYTES && size > MAX_TOOL_RESULT_BYTES / 2, `${size} bytes`);
  const lines = WHOLE.split("\n");
  const shown = output.replace(/after \d+ ms/, "after some ms").split("\n");
  const [first, last] = [Number(marker[1]), Number(marker[2])];
  assert.deepEqual(shown.slice(0, first - 1), lines.slice(0, first - 1));
  assert.equal(shown[first - 1], marker[0]);
  assert.deepEqual(shown.slice(first), lines.slice(last));
}

const textOf = ({ event }: SequencedEvent) =>
  event.type === "tool-output-available" ? String(event.output) : "";

/** One client has read all there is, each number once; what it has beside was void, and nothing but deltas. */
function checkReader({ seen, replay }: Done): void {
  const [read, stored] = [logOf(seen), logOf(replay)];
  assert.deepEqual([checkLog(read), checkLog(stored)], [[], []]);
  const kept = new Set(stored.map(({ seq }) => seq));
  assert.deepEqual(read.filter(({ seq }) => kept.has(seq)), stored);
  for (const { seq, event } of read.filter(({ seq }) => !kept.has(seq))) {
    assert.match(event.type, /^(text|reasoning|tool-input)-(start|delta)$/, `${seq}`);
    const next = read.find((other) => other.seq > seq && kept.has(other.seq));
    assert.equal(next?.event.type, "step-reset");
  }
}

/** How the run ended, and what the rows of its calls come to, those of lost ones too. */
interface Totals {
  finishReason: string;
  prompt: number;
  completion: number;
  cost: number;
}

async function totalsOf({ db }: Done, kills: ReadonlySet<Kill>): Promise<Totals> {
  const [sum] = await db.read<Omit<Totals, "finishReason">[]>`
    select sum(prompt_tokens)::int as prompt, sum(completion_tokens)::int as completion, sum(cost_micros)::int as cost
    from hub.usage`;
  const finishReason = kills.size === 0 ? "max-tokens" : "max-steps";
  return { finishReason, ...sum ?? assert.fail("no rows") };
}

async function checkRows(
  { db }: Done,
  kills: ReadonlySet<Kill>,
  { finishReason, prompt, completion, cost }: Totals,
): Promise<void> {
  const rows = async (query: string): Promise<unknown[][]> =>
    (await db.read.unsafe(query)).map((row: Record<string, unknown>) => Object.values(row));
  const built = kills.has("runs") ? "unknown" : "succeeded";
  assert.deepEqual(
    await rows(`select status, finish_reason, provider, total_tokens::int, cost_micros::int, error,
      budget, lease_owner, finished_at is not null from hub.runs`),
    [[
      "completed",
      finishReason,
      "one",
      prompt + completion,
      cost,
      null,
      budgetOf(kills),
      null,
      true,
    ]],
  );
  assert.deepEqual(
    await rows(`select step, state, finish_reason, cost_micros::int from hub.steps order by step`),
    Array.from(
      { length: CONCLUDES + 1 },
      (_, step) => [step, "done", step === CONCLUDES ? "stop" : "tool-calls", 110],
    ),
  );
  assert.deepEqual(
    await rows(`select position, role, superseded_at from hub.messages order by position`),
    [[1, "user", null], [2, "assistant", null]],
  );
  const toolParts = stepsOf("").map((calls, step) =>
    calls.map(([name]) => ["tool", toolName(name), partState(step, kills)])
  );
  assert.deepEqual(
    await rows(`select p.type, p.tool_name, p.state from hub.parts p join hub.messages m
      using (tenant_id, message_id) where m.role = 'assistant' and p.content is not null
      and p.content ->> 'name' is distinct from 'lost-calls'
      order by p.part_index`),
    toolParts.flatMap((calls, step) => [
      ...step === 7 ? [["data", null, null]] : [],
      ["step-start", null, null],
      ["text", null, "done"],
      ...calls,
    ]).concat([["step-start", null, null], ["text", null, "done"]]),
  );
  assert.deepEqual(
    await rows(`select step, idx, tool_name, effect, state, outside from hub.tool_calls
      order by step, idx`),
    [
      [0, 0, "file.read", "pure", "succeeded", "file"],
      [0, 1, "file.read", "pure", "succeeded", "file"],
      [1, 0, "file.edit", "effect", "succeeded", null],
      [2, 0, "file.delete", "effect", "denied", null],
      [3, 0, "shell.run", "effect", built, "shell"],
      [4, 0, "file.read", "pure", "succeeded", "file"],
      [5, 0, "shell.run", "effect", "succeeded", "shell"],
      [6, 0, "hub.read_result", "pure", "succeeded", null],
      [7, 0, "shell.run", "effect", "succeeded", "shell"],
      [7, 1, "hub.read_result", "pure", "succeeded", null],
    ],
  );
  assert.deepEqual(
    await rows(`select tool_name, risk, tier, state, remember, reason, tainted from hub.approvals
      order by created_at`),
    [
      ["file.edit", "medium", "ask", "approved", "once", null, ["file"]],
      ["file.delete", "high", "ask", "denied", null, "keep the notes", ["file"]],
      ["shell.run", "high", "ask", "approved", "session", null, ["file"]],
      ["shell.run", "high", "ask", "approved", "session", null, ["file", "shell"]],
    ],
  );
  assert.deepEqual(await rows(`select tool_name, tainted from hub.approval_grants`), [
    ["shell.run", ["file", "shell"]],
  ]);
  assert.deepEqual(await rows(`select kind, text, state, client_id from hub.steering`), [
    ["steer", STEERING, "applied", "s1"],
  ]);
  const [blob, ...blobs] = await rows(`select content from hub.blobs`);
  assert.deepEqual(blobs, []);
  assert.equal(String(blob?.[0]).replace(/after \d+ ms/, "after some ms"), WHOLE);
  // A call of the model that a hub took with it is booked by an estimate beside the one that took its place.
  const lost = [["reads", 0], ["denied", 3], ["steered", 6], ["concludes", CONCLUDES]] as const;
  assert.deepEqual(
    await rows(`select step, outcome, error_code, estimated from hub.usage order by step, outcome`),
    Array.from({ length: CONCLUDES + 1 }, (_, step) => [
      ...lost.some(([kill, at]) => at === step && kills.has(kill))
        ? [[step, "cut", "orphaned", true]]
        : [],
      [step, "ok", null, false],
    ]).flat(),
  );
  // The estimate is of the whole request that was sent: from step 6 on, it has the large result in it.
  assert.deepEqual(
    await rows(`select step, prompt_tokens > 5000 from hub.usage where estimated order by step`),
    lost.flatMap(([kill, step]) => kills.has(kill) ? [[step, step >= 6]] : []),
  );
  assert.deepEqual(
    await rows(`select sum(total)::int as total, sum(cost)::int as cost from (select prompt_tokens +
      completion_tokens as total, cost_micros as cost from hub.usage where outcome = 'ok') ok`),
    [[900, 990]],
  );
  assert.deepEqual(
    await rows(`select message_count, run_count, prompt_tokens::int, completion_tokens::int,
      cost_micros::int from hub.sessions`),
    [[2, 1, prompt, completion, cost]],
  );
}

/** What was denied is an error too, with the answer beside it. */
function partState(step: number, kills: ReadonlySet<Kill>): string {
  return step === 2 || step === 3 && kills.has("runs") ? "error" : "result";
}

for (
  const [name, kills] of [
    [
      "a whole task: reads, an edit, a denial, commands, a result too large, steering, the budget",
      NONE,
    ],
    ["the same with a hub that is killed six times on the way", ALL],
  ] as const
) {
  Deno.test(name, async () => {
    await withTask(kills, async (done) => {
      checkReader(done);
      const log = logOf(done.replay);
      const cut = log.map(textOf).find((text) => text.includes("left out here")) ?? "";
      checkCut(cut);
      const built = kills.has("runs")
        ? { type: "tool-output-error", errorText: OUTCOME_UNKNOWN }
        : "exit code 0 after some ms\n--- stdout\nthe price is 42";
      const shown = cut.replace(/blob_[0-9a-f]{32}/g, "blob 1").replace(
        /after \d+ ms/,
        "after some ms",
      );
      const totals = await totalsOf(done, kills);
      if (kills.size === 0) assert.deepEqual([totals.prompt, totals.cost], [810, 990]);
      const told = log.filter(({ event }) => event.type !== "data" || !isLostCalls(event));
      assert.deepEqual(exactLog(told), expectedLog({ built, cut: shown, totals }));

      assert.deepEqual(done.workspace, WORKSPACE_AFTER);
      await checkRows(done, kills, totals);
      assert.deepEqual(
        done.questions.map(({ toolName, state }) => [toolName, state]),
        [["file.edit", "approved"], ["file.delete", "denied"]]
          .concat([["shell.run", "approved"], ["shell.run", "approved"]]),
      );

      // Each step is asked for once, or again to the byte; the last one is told to conclude.
      const { requests } = done;
      for (const request of requests) {
        assert.deepEqual(request, requests.find(({ step }) => step === request.step));
      }
      const again = kills.size === 0 ? 0 : 4;
      assert.equal(requests.length, CONCLUDES + 1 + again);
      for (const { step, toolChoice, messages } of requests) {
        assert.equal(toolChoice, step === CONCLUDES ? "none" : undefined);
        const isSaid = messages.some(({ role, content }) =>
          role === "user" && content === STEERING
        );
        assert.equal(isSaid, step >= 7);
      }

      const { data: messages } = await (await done.get(`/v1/sessions/${done.session}/messages`))
        .json();
      const fold = createFold();
      for (const { event } of log) fold.apply(event);
      assert.deepEqual(messages.at(-1).parts, fold.message().parts);
    });
  });
}
