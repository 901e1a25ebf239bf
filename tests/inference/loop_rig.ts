import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import { type HubEvent, isTransient } from "../../src/core/event.ts";
import { createFold } from "../../src/core/fold.ts";
import type { Id, IdPrefix } from "../../src/core/id.ts";
import type { Json, JsonObject } from "../../src/core/json.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import type {
  ModelCallContext,
  ModelEvent,
  ModelFinishReason,
  ModelRequest,
} from "../../src/core/model.ts";
import type { Tool, ToolContext, ToolResult } from "../../src/core/tool.ts";
import type { UIMessage } from "../../src/core/ui_message.ts";
import type { Usage } from "../../src/core/usage.ts";
import { runAgent } from "../../src/inference/agent_loop.ts";
import type { AgentRun, AgentSettings } from "../../src/inference/agent_run.ts";
import type { LoopBatch, StepRecord, ToolCallRecord } from "../../src/inference/loop_batch.ts";
import { callTool } from "../../src/operations/call.ts";
import { parseArguments } from "../../src/operations/parse_arguments.ts";
import { createWireNames } from "../../src/operations/wire_names.ts";
import { createFakeClock, type FakeClock } from "../support/fake_clock.ts";

/** One model call: yields reads, may throw, may wait for `context.signal`. */
export type Answer = (
  request: ModelRequest,
  context: ModelCallContext,
) => AsyncGenerator<ModelEvent[], void, void>;

export const USAGE: Usage = {
  promptTokens: 10,
  completionTokens: 5,
  totalTokens: 15,
  cachedTokens: 4,
  reasoningTokens: 1,
};

export const START: ModelEvent = {
  type: "response-start",
  provider: "acme",
  model: "acme-1",
  attempt: 1,
};

export const text = (delta: string): ModelEvent => ({ type: "text-delta", delta });

export function end(finishReason: ModelFinishReason): ModelEvent[] {
  return [{ type: "usage", usage: USAGE, costMicros: 7 }, { type: "finish", finishReason }];
}

/** A tool call as a provider streams it: start, then its arguments in one delta. */
export function call(index: number, toolName: string, input: Json | string): ModelEvent[] {
  const delta = typeof input === "string" ? input : JSON.stringify(input);
  return [
    { type: "tool-call-start", index, providerCallId: `up_${index}`, toolName },
    ...(delta === "" ? [] : [{ type: "tool-call-delta" as const, index, delta }]),
  ];
}

/** An answer that gives these reads, one after the other. */
export function answer(...reads: ModelEvent[][]): Answer {
  return async function* () {
    yield [START];
    for (const read of reads) yield await Promise.resolve(read);
  };
}

/** A whole answer of text alone. */
export const says = (words: string): Answer => answer([text(words)], end("stop"));

/** A whole answer that makes calls. */
export const asks = (...calls: [string, Json | string][]): Answer =>
  answer(calls.flatMap(([name, input], index) => call(index, name, input)), end("tool-calls"));

/** A tool that takes any object. */
export function makeTool(
  name: string,
  execute: (input: JsonObject, context: ToolContext) => Promise<ToolResult> | ToolResult,
  rest: Partial<Tool> = {},
): Tool {
  return {
    name,
    description: `Does ${name}`,
    inputSchema: { type: "object" },
    parameters: { type: "object" },
    strict: false,
    effect: "effect",
    approval: "never",
    risk: "low",
    timeoutMs: 60_000,
    sequential: false,
    polling: false,
    validate(input) {
      if (typeof input === "object" && input !== null && !Array.isArray(input)) {
        if (!("bad" in input)) return { ok: true, input };
        return { ok: false, problems: [{ path: "/bad", wanted: "nothing", got: "something" }] };
      }
      return { ok: false, problems: [{ path: "", wanted: "object", got: typeof input }] };
    },
    execute: async (input, context) => await execute(input as JsonObject, context),
    ...rest,
  };
}

export const textResult = (words: string): ToolResult => ({
  content: [{ type: "text", text: words }],
});

/** What a test says about a run. */
export interface RigOptions {
  answers: Answer[];
  tools?: Tool[];
  settings?: Partial<AgentSettings>;
  history?: UIMessage[];
  run?: Partial<AgentRun>;
  /** Called after each batch is durable, before the next is asked for. */
  onBatch?: (batch: LoopBatch, rig: Rig) => void | Promise<void>;
  /** The events alone are no whole log, since the run goes on from another's. */
  isResumed?: boolean;
}

/** A run under way and what it has done. */
export interface Rig {
  clock: FakeClock;
  abort: AbortController;
  batches: LoopBatch[];
  /** Durable events. */
  events: HubEvent[];
  progress: HubEvent[];
  requests: ModelRequest[];
  contexts: ModelCallContext[];
  journal: Map<string, ToolCallRecord>;
  /** States each call went through, in order. */
  states: Map<string, string[]>;
  steps: Map<number, StepRecord>;
  generator: AsyncGenerator<LoopBatch, void, void>;
  /** Resolves once the generator is done and everything it promised has been checked. */
  done: Promise<void>;
}

/** Starts a run on scripted answers and drives it as `run/` does. */
export function startRig(options: RigOptions): Rig {
  const rig = setUpRig(options);
  rig.done = drive(rig, options);
  return rig;
}

/** A run on scripted answers that nobody drives yet. */
export function setUpRig(options: RigOptions): Rig {
  const clock = createFakeClock();
  const abort = new AbortController();
  const tools = options.tools ?? [];
  let calls = 0;
  const executed = new Set<string>();
  const run: AgentRun = {
    runId: "run_1",
    sessionId: "ses_1",
    messageId: "msg_1",
    model: "smart",
    settings: {
      name: "default",
      systemPrompt: "Be brief.",
      maxSteps: 10,
      maxParallelTools: 8,
      ...options.settings,
    },
    history: options.history ?? [
      {
        id: "msg_0",
        role: "user",
        parts: [{ type: "text", id: "p0", text: "Go", state: "done" }],
      },
    ],
    tools,
    principal: { tenantId: "t", keyId: "key_1", keyName: "test", role: "user" },
    callModel(request, context) {
      const scripted = options.answers[rig.requests.length];
      rig.requests.push(structuredClone(request));
      rig.contexts.push(context);
      assert.ok(scripted, `model call ${rig.requests.length} is not in the script`);
      return scripted(request, context);
    },
    async executeTool(tool, input, context) {
      const { toolCallId } = context;
      assert.equal(rig.journal.get(toolCallId)?.state, "started", "intent before effect");
      assert.ok(!executed.has(toolCallId), `${toolCallId} runs once`);
      executed.add(toolCallId);
      return await callTool(tool, input, { context });
    },
    parseArguments,
    wireNames: createWireNames(tools.map((tool) => tool.name)),
    approvalTimeoutMs: 60_000,
    signal: abort.signal,
    clock,
    ids: { next: <P extends IdPrefix>(prefix: P): Id<P> => `${prefix}_${++calls}` },
    random: () => 0.5,
    log: SILENT_LOG,
    ...options.run,
  };
  const generator = runAgent(run);
  const rig: Rig = {
    clock,
    abort,
    batches: [],
    events: [],
    progress: [],
    requests: [],
    contexts: [],
    journal: new Map(),
    states: new Map(),
    steps: new Map(),
    generator,
    done: Promise.resolve(),
  };
  return rig;
}

/** Runs to the end; for runs that need nobody to move the clock. */
export async function runRig(options: RigOptions): Promise<Rig> {
  const rig = startRig(options);
  await rig.done;
  return rig;
}

async function drive(rig: Rig, options: RigOptions): Promise<void> {
  for await (const batch of rig.generator) {
    // The commit takes its time; tools and model go on meanwhile.
    await Promise.resolve();
    rig.batches.push(batch);
    const ids = (batch.calls ?? []).map((row) => row.toolCallId);
    assert.equal(new Set(ids).size, ids.length, "one row per call and batch");
    for (const row of batch.calls ?? []) {
      rig.journal.set(row.toolCallId, row);
      rig.states.set(row.toolCallId, [...rig.states.get(row.toolCallId) ?? [], row.state]);
    }
    for (const row of batch.steps ?? []) rig.steps.set(row.step, row);
    for (const event of batch.events) {
      (isTransient(event) ? rig.progress : rig.events).push(event);
    }
    await options.onBatch?.(batch, rig);
  }
  if (options.isResumed !== true) checkRig(rig);
}

/** What holds at the end of every run. */
export function checkRig(rig: Rig): void {
  const log = rig.events.map((event, index) => ({ seq: index + 1, event }));
  assert.deepEqual(checkLog(log), []);
  for (const [id, row] of rig.journal) {
    assert.ok(row.state !== "ready" && row.state !== "started", `${id} is left ${row.state}`);
  }
  const fold = createFold();
  for (const event of rig.events) fold.apply(event);
  for (const part of fold.message().parts) {
    if (part.type !== "tool") continue;
    const neverWhole = part.input === undefined &&
      ["aborted", "interrupted"].includes(part.errorText ?? "");
    assert.equal(rig.journal.has(part.toolCallId), !neverWhole, `row of ${part.toolCallId}`);
  }
  for (const step of rig.steps.values()) assert.equal(step.state, "done");
  for (const request of rig.requests) checkRequest(request);
}

/** The invariants of 03 "before every request". */
export function checkRequest(request: ModelRequest): void {
  const names = request.tools.map((tool) => tool.name);
  // Of tools that are found more and more come, behind those that were there.
  if (!names.includes("hub_find_tools")) assert.deepEqual(names, [...names].sort());
  const seen = new Set<string>();
  for (const [index, message] of request.messages.entries()) {
    if (message.role === "tool") {
      const before = request.messages[index - 1];
      assert.equal(before?.role, "assistant");
      const asked = before?.role === "assistant"
        ? before.content.flatMap((piece) => piece.type === "tool-call" ? [piece.toolCallId] : [])
        : [];
      assert.deepEqual(message.results.map((result) => result.toolCallId), asked);
      for (const id of asked) assert.ok(!seen.has(id) && seen.add(id), `${id} twice`);
    }
    if (message.role !== "assistant") continue;
    const calls = message.content.filter((piece) => piece.type === "tool-call");
    for (const piece of message.content) {
      if (piece.type === "text") assert.notEqual(piece.text.trim(), "");
    }
    for (const piece of calls) JSON.parse(piece.inputText);
    if (calls.length > 0) assert.equal(request.messages[index + 1]?.role, "tool");
  }
  assert.doesNotMatch(JSON.stringify(request.messages), /\\ud[89a-f]/);
}

/** The `finish` event. */
export function finishOf(rig: Rig): Extract<HubEvent, { type: "finish" }> {
  const last = rig.events.at(-1);
  assert.equal(last?.type, "finish");
  if (last?.type !== "finish") throw new Error("no finish");
  return last;
}
