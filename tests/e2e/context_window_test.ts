import assert from "node:assert/strict";
import type { HubEvent } from "../../src/core/event.ts";
import type { JsonObject } from "../../src/core/json.ts";
import { SUMMARISE } from "../../src/inference/ask_summary.ts";
import {
  chatError,
  chatStream,
  type RecordedRequest,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, type TestHub, withHub } from "../support/test_hub.ts";

interface ChatBody {
  messages: { role: string; content: string | null }[];
  tools: { function: { name: string } }[];
  tool_choice?: string;
}

const bodyOf = (request: RecordedRequest) => request.json as unknown as ChatBody;
const lastOf = (request: RecordedRequest) => bodyOf(request).messages.at(-1) ?? assert.fail();
const isSummary = (request: RecordedRequest) => lastOf(request).content === SUMMARISE;
const TOO_LONG = chatError(400, {
  message: "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
});

function call(
  request: RecordedRequest,
  tool: string,
  input: JsonObject,
  usage: { promptTokens?: number; completionTokens?: number } = {},
) {
  const names = bodyOf(request).tools.map((one) => one.function.name);
  const name = names.find((one) => one.endsWith(tool)) ?? assert.fail(tool);
  return chatStream({ toolCalls: [{ name, arguments: input }], usage });
}

const configOf = (url: string, model: JsonObject, agent: JsonObject = {}) => ({
  providers: { one: { baseUrl: url, models: { m: model } } },
  defaultModel: "one/m",
  operations: {
    modules: [new URL("../fixtures/operations/long_list.ts", import.meta.url).pathname],
  },
  agents: { default: { tools: ["test.*", "hub.read_result"], maxSteps: 100, ...agent } },
});

async function run(hub: TestHub, id?: string) {
  const session = id ?? (await (await hub.call("/v1/sessions", { body: {} })).json()).id;
  const answer = await hub.call(`/v1/sessions/${session}/messages`, {
    body: { text: "Go", stream: false },
  });
  const { run, message } = await answer.json();
  const events: HubEvent[] = (await hub.hub.start.db.read<{ events: { event: HubEvent }[] }[]>`
    select events from hub.run_events order by seq_from`).flatMap((row) =>
    row.events.map(({ event }) => event)
  );
  return { session, run, message, events };
}

/** How often the guard has acted, by trigger and outcome. */
async function guarded(hub: TestHub): Promise<Record<string, number>> {
  const metrics = await (await hub.call("/metrics", { method: "GET" })).text();
  const line =
    /^loophub_context_guard_events_total\{provider="one",model="m",trigger="(\w+)",outcome="(\w+)"\} (\d+)$/gm;
  return Object.fromEntries(
    [...metrics.matchAll(line)].map(([, trigger, outcome, times]) => [
      `${trigger}/${outcome}`,
      Number(times),
    ]),
  );
}

const compactions = (events: readonly HubEvent[]) =>
  events.flatMap((one) =>
    one.type === "data" && one.name === "compaction" ? [one.data as JsonObject] : []
  );

Deno.test("an upstream that says a request is too long gets a shorter one, and all is booked", async () => {
  const upstream = await startScriptedUpstream();
  try {
    await withHub(configOf(upstream.url, {}), async (hub) => {
      const shown: RecordedRequest[] = [];
      upstream.script((request, index) => {
        shown.push(request);
        if (isSummary(request)) return chatStream({ text: "SUMMARY" });
        if (index < 6) return call(request, "long_list", { lines: 40 + index });
        return index === 6 ? TOO_LONG : chatStream({ text: "Done" });
      });
      const { session, run: done, message, events } = await run(hub);
      assert.equal(done.finishReason, "stop");
      const [made] = compactions(events);
      assert.equal(made?.["trigger"], "provider");
      const parts: { type: string; name?: string }[] = message.parts;
      assert.equal(parts.filter(({ name }) => name === "compaction").length, 1);
      const [refused, again] = [shown[6], shown.at(-1)].map((one) => JSON.stringify(one?.json));
      assert.ok((again?.length ?? 0) < (refused?.length ?? 0) * 0.6, "it is shorter");
      assert.match(again ?? "", /hub\.read_result: ref/);
      const ref = /ref \\"(call_[0-9a-f]{32})\\"/.exec(again?.replaceAll("\\\\", "\\") ?? "")?.[1];
      assert.ok(ref, "a pointer names its call");

      // The next run of the session goes on with the very same words, and reads what was left out.
      const next: RecordedRequest[] = [];
      upstream.script((request) => {
        next.push(request);
        return next.length === 1
          ? call(request, "read_result", { ref, offset: 3, limit: 1, grep: null })
          : chatStream({ text: "Read" });
      });
      await run(hub, session);
      const before = shown.at(-1);
      const [first, second] = next;
      assert.ok(before && first && second);
      const { messages } = bodyOf(before);
      assert.deepEqual(bodyOf(first).messages.slice(0, messages.length), messages);
      assert.match(lastOf(second).content ?? "", /^3: /);
      const metrics = await (await hub.call("/metrics", { method: "GET" })).text();
      assert.match(
        metrics,
        /loophub_context_guard_events_total\{provider="one",model="m",trigger="provider",outcome="compacted"\} 1/,
      );
      assert.match(
        metrics,
        /loophub_context_guard_remaining_tokens\{provider="one",model="m"\} \d+/,
      );
    });
  } finally {
    await upstream.stop();
  }
});

Deno.test("a small window over real HTTP: summaries are calls like any other, in rows and in the run's sum", async () => {
  const upstream = await startScriptedUpstream();
  const usage = { promptTokens: 900, completionTokens: 40 };
  const model = {
    contextWindow: 4000,
    contextBuffer: 200,
    maxOutputTokens: 300,
    pricing: { inputPerMillion: 1, outputPerMillion: 1 },
  };
  try {
    await withHub(configOf(upstream.url, model), async (hub) => {
      let steps = 0;
      let summaries = 0;
      upstream.script((request) => {
        if (isSummary(request)) {
          summaries++;
          assert.equal(bodyOf(request).tool_choice, "none");
          return chatStream({ text: "SUMMARY", usage });
        }
        return steps++ < 30
          ? call(request, "long_list", { lines: 20 + steps }, usage)
          : chatStream({ text: "Done", usage });
      });
      const { run: done, events } = await run(hub);
      assert.equal(done.finishReason, "stop");
      assert.ok(compactions(events).length > 1);
      const finish = events.at(-1);
      assert.ok(finish?.type === "finish");
      const { db } = hub.hub.start;
      const sums = async () =>
        (await db.read`select count(*)::int as calls, sum(prompt_tokens)::int as tokens,
          sum(cost_micros)::int as cost from hub.usage`)[0];
      const rows = await eventually(async () => {
        const rows = await sums();
        return rows?.["calls"] === steps + summaries ? rows : null;
      });
      const { promptTokens: tokens } = finish.usage;
      assert.deepEqual({ ...rows }, { calls: steps + summaries, tokens, cost: finish.costMicros });
      assert.deepEqual(await guarded(hub), { "request/compacted": compactions(events).length });
    });
  } finally {
    await upstream.stop();
  }
});

Deno.test("without compaction a run with a full window concludes with token-limit", async () => {
  const upstream = await startScriptedUpstream();
  const model = { contextWindow: 4000, contextBuffer: 1500, maxOutputTokens: 300 };
  try {
    await withHub(configOf(upstream.url, model, { compaction: false }), async (hub) => {
      upstream.script((request, index) =>
        bodyOf(request).tool_choice === "none"
          ? chatStream({ text: "Enough" })
          : call(request, "long_list", { lines: 40 + index })
      );
      const { run: done, events } = await run(hub);
      assert.equal(done.finishReason, "token-limit");
      assert.equal(done.status, "completed");
      assert.equal(compactions(events).length, 0);
      assert.ok(events.some((one) => one.type === "data" && one.name === "context-guard"));
      assert.deepEqual(await guarded(hub), { "request/concluded": 1 });

      // A call whose own arguments fill the window is not executed, and the run concludes too.
      upstream.script((request) =>
        bodyOf(request).tool_choice === "none"
          ? chatStream({ text: "Enough" })
          : call(request, "long_list", { lines: 1, why: "since ".repeat(2500) })
      );
      const refused = await run(hub);
      assert.equal(refused.run.finishReason, "token-limit");
      assert.match(JSON.stringify(refused.message.parts), /context window budget exceeded/);
      assert.deepEqual(await guarded(hub), { "request/concluded": 2, "tool/refused": 1 });
    });
    await withHub(configOf(upstream.url, { ...model, contextWindow: 1900 }), async (hub) => {
      const session = await (await hub.call("/v1/sessions", { body: {} })).json();
      const asked = upstream.requests.length;
      const { error } = await (await hub.call(`/v1/sessions/${session.id}/messages`, {
        body: { text: "Go ".repeat(3000), stream: false },
      })).json();
      assert.equal(error?.code, "context_overflow");
      assert.equal(upstream.requests.length, asked, "nothing is sent that cannot fit");
      assert.deepEqual(await guarded(hub), { "request/overflow": 1 });
    });
  } finally {
    await upstream.stop();
  }
});
