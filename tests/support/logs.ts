import fc from "fast-check";
import type { FinishReason, HubEvent, SequencedEvent } from "../../src/core/event.ts";
import type { Json } from "../../src/core/json.ts";
import { steeringEvent, type SteeringFate, type SteeringKind } from "../../src/core/steering.ts";
import { addUsage, NO_USAGE, type Usage } from "../../src/core/usage.ts";

/** A small JSON value, as `JSON.parse` would give it. */
export const json: fc.Arbitrary<Json> = fc.jsonValue({ maxDepth: 2 })
  .map((value) => JSON.parse(JSON.stringify(value)) as Json);

/** Usage with sums that add up. */
export const usage: fc.Arbitrary<Usage> = fc.record({
  promptTokens: fc.nat(5000),
  completionTokens: fc.nat(5000),
  cachedTokens: fc.nat(100),
  reasoningTokens: fc.nat(100),
}).map((part) => ({ ...part, totalTokens: part.promptTokens + part.completionTokens }));

const text = fc.string({ unit: "grapheme", minLength: 1, maxLength: 8 });
const deltas = fc.array(text, { maxLength: 4 });

type Outcome = {
  approval: "none" | "approved" | "denied" | "open";
  preliminary: Json[];
  end: "output" | "error" | "denied";
  output: Json;
  errorText: string;
};

const outcome: fc.Arbitrary<Outcome> = fc.record({
  approval: fc.constantFrom("none", "none", "approved", "denied", "open"),
  preliminary: fc.array(json, { maxLength: 2 }),
  end: fc.constantFrom("output", "output", "error", "denied"),
  output: json,
  errorText: text,
});

const item = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("text" as const), deltas }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("reasoning" as const),
      deltas,
      payload: fc.option(json, { nil: undefined }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("tool" as const),
      toolName: fc.constantFrom("files.read", "shell.run", "hub.read_result", "weather"),
      streamed: fc.boolean(),
      deltas,
      input: json,
      isValid: fc.integer({ min: 0, max: 4 }).map((roll) => roll > 0),
      errorText: text,
      outcome,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("source" as const),
      url: fc.webUrl(),
      title: fc.option(text, { nil: undefined }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("file" as const),
      filename: fc.option(text, { nil: undefined }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("data" as const),
      name: fc.constantFrom("compaction", "todo"),
      id: fc.option(fc.constantFrom("a", "b"), { nil: undefined }),
      data: json,
    }),
  },
);

type Item = typeof item extends fc.Arbitrary<infer T> ? T : never;

const attempt = fc.record({
  items: fc.array(item, { maxLength: 5 }),
  /** Which item's next event comes; the order within an item stays. */
  picks: fc.array(fc.nat(100), { maxLength: 40 }),
});

const said = fc.array(
  fc.record({ kind: fc.constantFrom<SteeringKind>("steer", "queue"), text }),
  { maxLength: 2 },
);

const step = fc.record({
  /** What users said before the step. */
  said,
  /** Attempts that broke off, each cut at a share of its events. */
  broken: fc.array(fc.record({ attempt, cut: fc.nat(100), jump: fc.nat(50) }), { maxLength: 2 }),
  attempt,
  usage,
  picks: fc.array(fc.nat(100), { maxLength: 20 }),
});

const plan = fc.record({
  steps: fc.array(step, { minLength: 1, maxLength: 4 }),
  finishReason: fc.constantFrom<FinishReason>(
    "stop",
    "length",
    "content-filter",
    "tool-calls",
    "max-steps",
  ),
  end: fc.oneof(
    { weight: 4, arbitrary: fc.constant({ kind: "finish" as const }) },
    { weight: 1, arbitrary: fc.constant({ kind: "waiting" as const }) },
    {
      weight: 2,
      arbitrary: fc.record({
        kind: fc.constantFrom("error" as const, "abort" as const),
        cut: fc.nat(100),
        usage,
        undelivered: said,
      }),
    },
  ),
  costMicros: fc.option(fc.nat(10_000)),
});

type Said = typeof said extends fc.Arbitrary<infer T> ? T : never;
type Plan = typeof plan extends fc.Arbitrary<infer T> ? T : never;

/** A whole, valid log: several steps, attempts made again, parallel tools, approvals, errors, stops. */
export const validLog: fc.Arbitrary<SequencedEvent[]> = plan.map(writeLog);

/** The beginning of a valid log, cut anywhere. */
export const validPrefix: fc.Arbitrary<SequencedEvent[]> = fc.tuple(validLog, fc.nat(1000))
  .map(([log, cut]) => log.slice(0, 1 + cut % log.length));

interface Call {
  toolCallId: string;
  outcome: Outcome;
}

class LogWriter {
  readonly #plan: Plan;
  readonly events: { event: HubEvent; jump: number }[] = [];
  #ids = 0;

  constructor(plan: Plan) {
    this.#plan = plan;
  }

  write(): SequencedEvent[] {
    this.#push({
      type: "start",
      messageId: "msg_1",
      runId: "run_1",
      sessionId: "ses_1",
      model: "demo/talk",
    });
    this.#plan.steps.forEach((step, index) => this.#step(step, index));
    const { end } = this.#plan;
    if (end.kind === "error" || end.kind === "abort") this.#breakOff(end);
    else this.#finish(end.kind === "waiting" ? "waiting" : this.#plan.finishReason);
    let seq = 0;
    return this.events.map(({ event, jump }) => ({ seq: seq += 1 + jump, event }));
  }

  #push(event: HubEvent, jump = 0): void {
    this.events.push({ event, jump });
  }

  #id(prefix: string): string {
    return `${prefix}_${this.#ids++}`;
  }

  #step(step: Plan["steps"][number], index: number): void {
    this.#say(step.said, "applied");
    this.#push({ type: "step-start", step: index });
    for (const { attempt, cut, jump } of step.broken) {
      const events = this.#attempt(attempt, []);
      for (const event of share(events, cut)) this.#push(event);
      this.#push({ type: "step-reset", step: index }, jump);
    }
    const calls: Call[] = [];
    for (const event of this.#attempt(step.attempt, calls)) this.#push(event);
    const finishReason = calls.length > 0 ? "tool-calls" : "stop";
    this.#push({ type: "step-finish", step: index, finishReason, usage: step.usage });
    const isLast = index === this.#plan.steps.length - 1;
    const mayWait = isLast && this.#plan.end.kind === "waiting";
    const answers = calls.map((call) => this.#answer(call, mayWait));
    for (const event of interleave(answers, step.picks)) this.#push(event);
  }

  #say(texts: Said, state: SteeringFate): void {
    for (const text of texts) {
      this.#push(steeringEvent({ steeringId: this.#id("steer"), ...text }, state));
    }
  }

  #attempt(attempt: Plan["steps"][number]["attempt"], calls: Call[]): HubEvent[] {
    return interleave(attempt.items.map((item) => this.#item(item, calls)), attempt.picks);
  }

  #item(item: Item, calls: Call[]): HubEvent[] {
    switch (item.kind) {
      case "text": {
        const id = this.#id("txt");
        return [
          { type: "text-start", id },
          ...item.deltas.map((delta) => ({ type: "text-delta" as const, id, delta })),
          { type: "text-end", id },
        ];
      }
      case "reasoning": {
        const id = this.#id("rsn");
        const { payload } = item;
        const origin = {
          provider: "demo",
          model: "talk",
          field: "reasoning",
          ...(payload === undefined ? {} : { payload }),
        };
        return [
          { type: "reasoning-start", id },
          ...item.deltas.map((delta) => ({ type: "reasoning-delta" as const, id, delta })),
          { type: "reasoning-end", id, ...(payload === null ? {} : { origin }) },
        ];
      }
      case "tool": {
        const toolCallId = this.#id("call");
        const { toolName, input, errorText } = item;
        const streamed: HubEvent[] = !item.streamed ? [] : [
          { type: "tool-input-start", toolCallId, toolName },
          ...item.deltas.map((inputTextDelta) => (
            { type: "tool-input-delta" as const, toolCallId, inputTextDelta }
          )),
        ];
        if (!item.isValid) {
          const raw = item.deltas.join("");
          return [...streamed, {
            type: "tool-input-error",
            toolCallId,
            toolName,
            input: raw,
            errorText,
          }];
        }
        calls.push({ toolCallId, outcome: item.outcome });
        return [...streamed, { type: "tool-input-available", toolCallId, toolName, input }];
      }
      case "source": {
        const { url, title } = item;
        const sourceId = this.#id("src");
        return [{ type: "source-url", sourceId, url, ...(title === undefined ? {} : { title }) }];
      }
      case "file": {
        const name = item.filename === undefined ? {} : { filename: item.filename };
        return [{
          type: "file",
          mediaType: "image/png",
          url: "data:image/png;base64,AAAA",
          ...name,
        }];
      }
      case "data": {
        const { name, data, id } = item;
        return [{ type: "data", name, data, ...(id === undefined ? {} : { id }) }];
      }
    }
  }

  #answer({ toolCallId, outcome }: Call, mayWait: boolean): HubEvent[] {
    const events: HubEvent[] = [];
    const approvalId = this.#id("apr");
    if (outcome.approval !== "none") {
      events.push({
        type: "tool-approval-request",
        approvalId,
        toolCallId,
        toolName: "weather",
        input: {},
        risk: "medium",
        expiresAt: "2027-01-15T08:00:00Z",
      });
      if (outcome.approval === "open" && mayWait) return events;
      const approved = outcome.approval === "approved";
      const reason = approved ? {} : { reason: outcome.approval === "open" ? "expired" : "no" };
      events.push({ type: "tool-approval-response", approvalId, approved, ...reason });
      if (!approved) {
        return [...events, { type: "tool-output-denied", toolCallId, errorText: "Refused" }];
      }
    }
    const { end, output, errorText } = outcome;
    if (end === "denied") {
      return [...events, { type: "tool-output-denied", toolCallId, errorText }];
    }
    for (const output of outcome.preliminary) {
      events.push({ type: "tool-output-available", toolCallId, output, preliminary: true });
    }
    if (end === "output") events.push({ type: "tool-output-available", toolCallId, output });
    else events.push({ type: "tool-output-error", toolCallId, errorText });
    return events;
  }

  #finish(finishReason: FinishReason): void {
    let total: Usage = { ...NO_USAGE };
    for (const { event } of this.events) {
      if (event.type === "step-finish") total = addUsage(total, event.usage);
    }
    const { costMicros } = this.#plan;
    const metadata = { model: "talk", provider: "demo" };
    this.#push({ type: "finish", finishReason, usage: total, costMicros, metadata });
  }

  /** Cuts the log somewhere behind its start and closes it as a stop or a failure does. */
  #breakOff(
    end: { kind: "error" | "abort"; cut: number; usage: Usage; undelivered: Said },
  ): void {
    const kept = share(this.events.slice(1), end.cut);
    this.events.length = 1 + kept.length;
    const open = findOpen(this.events.map(({ event }) => event));
    const errorText = "interrupted";
    for (const { id, kind } of open.parts.values()) this.#push({ type: `${kind}-end`, id });
    for (const [toolCallId, call] of open.calls) {
      if (call.isReady) this.#push({ type: "tool-output-error", toolCallId, errorText });
      else {
        const { toolName } = call;
        this.#push({ type: "tool-input-error", toolCallId, toolName, input: "{", errorText });
      }
    }
    if (open.step !== null) {
      const finishReason = end.kind === "error" ? "error" : "aborted";
      this.#push({ type: "step-finish", step: open.step, finishReason, usage: end.usage });
    }
    this.#say(end.undelivered, "undelivered");
    if (end.kind === "abort") this.#push({ type: "abort", reason: "stopped by the user" });
    else {this.#push({
        type: "error",
        errorText: "Upstream gone",
        code: "upstream_cut",
        retryable: true,
      });}
    this.#finish(end.kind === "error" ? "error" : "aborted");
  }
}

function writeLog(plan: Plan): SequencedEvent[] {
  return new LogWriter(plan).write();
}

function share<T>(items: readonly T[], percent: number): T[] {
  return items.slice(0, Math.round(items.length * percent / 100));
}

function interleave<T>(sources: readonly (readonly T[])[], picks: readonly number[]): T[] {
  const waiting = sources.map((source) => [...source]).filter((source) => source.length > 0);
  const out: T[] = [];
  for (let turn = 0; waiting.length > 0; turn++) {
    const at = (picks[turn] ?? 0) % waiting.length;
    const next = waiting[at]?.shift();
    if (next !== undefined) out.push(next);
    if (waiting[at]?.length === 0) waiting.splice(at, 1);
  }
  return out;
}

/** What a log has begun and not ended; written apart from the fold, so that the two can disagree. */
function findOpen(events: readonly HubEvent[]) {
  const parts = new Map<string, { id: string; kind: "text" | "reasoning" }>();
  const calls = new Map<string, { toolName: string; isReady: boolean; step: number }>();
  let step: number | null = null;
  for (const event of events) {
    if (event.type === "step-start") step = event.step;
    else if (event.type === "step-finish") step = null;
    else if (event.type === "step-reset") {
      parts.clear();
      for (const [id, call] of calls) if (call.step === event.step) calls.delete(id);
    } else if (event.type === "text-start") parts.set(event.id, { id: event.id, kind: "text" });
    else if (event.type === "reasoning-start") {
      parts.set(event.id, { id: event.id, kind: "reasoning" });
    } else if (event.type === "text-end" || event.type === "reasoning-end") parts.delete(event.id);
    else if (event.type === "tool-input-start" || event.type === "tool-input-available") {
      const isReady = event.type === "tool-input-available";
      calls.set(event.toolCallId, { toolName: event.toolName, isReady, step: step ?? 0 });
    } else if (
      event.type === "tool-input-error" || event.type === "tool-output-error" ||
      event.type === "tool-output-denied" ||
      (event.type === "tool-output-available" && event.preliminary !== true)
    ) calls.delete(event.toolCallId);
  }
  return { parts, calls, step };
}
