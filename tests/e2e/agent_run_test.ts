import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import type { HubEvent, SequencedEvent } from "../../src/core/event.ts";
import { createFold } from "../../src/core/fold.ts";
import { isJsonObject, type JsonObject } from "../../src/core/json.ts";
import { parseAiSdkChat } from "../../src/wire/ai_sdk_request.ts";
import {
  chatStream,
  type Frame,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, type TestHub, withHub } from "../support/test_hub.ts";

const configOf = (upstream: ScriptedUpstream): JsonObject => ({
  providers: { one: { baseUrl: upstream.url, apiKey: "sk-upstream" } },
  defaultModel: "one/m",
  agents: { default: { systemPrompt: "Be brief" } },
});

async function newSession(hub: TestHub): Promise<string> {
  const answer = await hub.call("/v1/sessions", { body: {} });
  assert.equal(answer.status, 201);
  return (await answer.json()).id;
}

const say = (hub: TestHub, session: string, body: JsonObject) =>
  hub.call(`/v1/sessions/${session}/messages`, { body });

/** The frames with a number of a hub stream: the text of each, and its event. */
function parse(text: string): { frames: string[]; events: SequencedEvent[] } {
  const frames = text.split("\n\n").filter((frame) => frame.startsWith("id: "));
  const events = frames.map((frame) => {
    const match = /^id: (\d+)\ndata: (.*)$/.exec(frame);
    return { seq: Number(match?.[1]), event: JSON.parse(match?.[2] ?? "") as HubEvent };
  });
  return { frames, events };
}

const TWO_CALLS = chatStream({
  text: "Let me see.",
  toolCalls: [
    { name: "hub__calculate", arguments: { expression: "6*7" } },
    { name: "hub__current_time", arguments: { timeZone: null } },
  ],
  usage: { promptTokens: 10, completionTokens: 5 },
});
const ANSWER = chatStream({ text: "It is 42.", usage: { promptTokens: 20, completionTokens: 4 } });

/**
 * The log with what differs from run to run named: ids by kind and order, and the time that the clock's tool told.
 * Deltas of one part that came in several reads are one.
 */
function exactLog(events: readonly SequencedEvent[]): JsonObject[] {
  const names = new Map<string, string>();
  const nameOf = (id: string, kind: string) => {
    const before = [...names.values()].filter((name) => name.startsWith(kind)).length;
    const name = names.get(id) ?? `${kind} ${before + 1}`;
    names.set(id, name);
    return name;
  };
  const log: JsonObject[] = [];
  for (const { event } of events) {
    const text = JSON.stringify(event).replace(/\b(run|ses|msg|call)_[0-9a-f]{32}\b/g, nameOf);
    const named: JsonObject = JSON.parse(text);
    if (isJsonObject(named["output"]) && "unixSeconds" in named["output"]) {
      named["output"] = `the time, ${named["output"]["timeZone"]}`;
    }
    const last = log.at(-1);
    const isMore = last !== undefined && "delta" in named && named["type"] === last["type"] &&
      named["id"] === last["id"];
    if (isMore) last["delta"] = `${last["delta"]}${named["delta"]}`;
    else log.push(named);
  }
  // Two tools run at once: whichever ends first is told first.
  const first = log.findIndex(({ type }) => type === "tool-output-available");
  const outputs = log.slice(first, first + 2);
  outputs.sort((a, b) => String(a["toolCallId"]) < String(b["toolCallId"]) ? -1 : 1);
  log.splice(first, 2, ...outputs);
  return log;
}

const EXACT_LOG: JsonObject[] = [
  { type: "start", messageId: "msg 1", runId: "run 1", sessionId: "ses 1", model: "one/m" },
  { type: "step-start", step: 0 },
  { type: "text-start", id: "p0" },
  { type: "text-delta", id: "p0", delta: "Let me see." },
  { type: "text-end", id: "p0" },
  { type: "tool-input-start", toolCallId: "call 1", toolName: "hub.calculate" },
  { type: "tool-input-delta", toolCallId: "call 1", inputTextDelta: '{"expression":"6*7"}' },
  { type: "tool-input-start", toolCallId: "call 2", toolName: "hub.current_time" },
  { type: "tool-input-delta", toolCallId: "call 2", inputTextDelta: '{"timeZone":null}' },
  {
    type: "tool-input-available",
    toolCallId: "call 1",
    toolName: "hub.calculate",
    input: { expression: "6*7" },
  },
  { type: "tool-input-available", toolCallId: "call 2", toolName: "hub.current_time", input: {} },
  {
    type: "step-finish",
    step: 0,
    finishReason: "tool-calls",
    usage: {
      promptTokens: 10,
      completionTokens: 5,
      totalTokens: 15,
      cachedTokens: 0,
      reasoningTokens: 0,
    },
  },
  {
    type: "tool-output-available",
    toolCallId: "call 1",
    output: { expression: "6*7", result: 42 },
  },
  { type: "tool-output-available", toolCallId: "call 2", output: "the time, UTC" },
  { type: "step-start", step: 1 },
  { type: "text-start", id: "p1" },
  { type: "text-delta", id: "p1", delta: "It is 42." },
  { type: "text-end", id: "p1" },
  {
    type: "step-finish",
    step: 1,
    finishReason: "stop",
    usage: {
      promptTokens: 20,
      completionTokens: 4,
      totalTokens: 24,
      cachedTokens: 0,
      reasoningTokens: 0,
    },
  },
  {
    type: "finish",
    finishReason: "stop",
    usage: {
      promptTokens: 30,
      completionTokens: 9,
      totalTokens: 39,
      cachedTokens: 0,
      reasoningTokens: 0,
    },
    costMicros: null,
    metadata: { model: "m", provider: "one" },
  },
];

Deno.test("agent runs, end to end", async (t) => {
  const upstream = await startScriptedUpstream();
  try {
    await withHub(configOf(upstream), async (hub) => {
      const { db } = hub.hub.start;
      const session = await newSession(hub);
      let text = "";
      let runId = "";

      await t.step("two steps, two concurrent tools: the exact log", async () => {
        const offered: string[] = [];
        upstream.script((request, index) => {
          const { tools } = request.json as { tools: { function: { name: string } }[] };
          offered.push(...tools.map((tool) => tool.function.name));
          return index % 2 === 0 ? named(TWO_CALLS, offered) : ANSWER;
        });
        const answer = await say(hub, session, { id: "m1", text: "What is 6*7, and the time?" });
        text = await answer.text();
        const { events } = parse(text);
        assert.deepEqual(checkLog(events), []);
        assert.deepEqual(exactLog(events), EXACT_LOG);
        assert.ok(text.startsWith(": open\n\n") && text.endsWith("data: [DONE]\n\n"));
        const first = events[0]?.event;
        runId = first?.type === "start" ? first.runId ?? "" : "";
        const last = events.at(-1)?.event;
        assert.deepEqual(last?.type === "finish" && last.usage.totalTokens, 39);
      });

      await t.step("the model reads both results in the order of its calls", () => {
        const sent = upstream.requests.at(-1)?.json as { messages: JsonObject[] };
        const roles = sent.messages.map((message) => message["role"]);
        assert.deepEqual(roles, ["system", "user", "assistant", "tool", "tool"]);
        assert.match(String(sent.messages[3]?.["content"]), /42/);
        assert.match(String(sent.messages[4]?.["content"]), /\d{4}-\d\d-\d\d/);
      });

      await t.step("the rows say the same", async () => {
        const [run] = await db.read`select status, finish_reason, prompt_tokens::int as prompt,
          last_seq::int as seq, lease_owner from hub.runs`;
        assert.deepEqual({ ...run }, {
          status: "completed",
          finish_reason: "stop",
          prompt: 30,
          seq: parse(text).events.length,
          lease_owner: null,
        });
        const calls = await db.read`select tool_name, state, step from hub.tool_calls order by idx`;
        assert.deepEqual(calls.map((row) => ({ ...row })), [
          { tool_name: "hub.calculate", state: "succeeded", step: 0 },
          { tool_name: "hub.current_time", state: "succeeded", step: 0 },
        ]);
        const steps = await db.read`select step, state, finish_reason, usage, provider, model
          from hub.steps order by step`;
        const step = (index: number) =>
          EXACT_LOG.filter(({ type }) => type === "step-finish")[index];
        assert.deepEqual(
          steps.map((row) => ({ ...row })),
          [0, 1].map((index) => ({
            step: index,
            state: "done",
            finish_reason: step(index)?.["finishReason"],
            usage: step(index)?.["usage"],
            provider: "one",
            model: "m",
          })),
        );
        const fold = createFold();
        for (const { event } of parse(text).events) fold.apply(event);
        const parts = await db.read`select p.content from hub.parts p
          join hub.messages m using (tenant_id, message_id)
          where m.role = 'assistant' order by p.part_index`;
        assert.deepEqual(parts.map((row) => row["content"]), fold.message().parts);
        const transcript = await db.read`select role, kind from hub.transcript
          where session = ${session} order by position, part, line`;
        assert.deepEqual(transcript.map((row) => `${row["role"]} ${row["kind"]}`), [
          "user text",
          "hub step 0",
          "assistant text",
          "assistant tool hub.calculate",
          "assistant tool hub.current_time",
          "hub step 1",
          "assistant text",
          "hub run completed",
        ]);
        await eventually(async () => {
          const rows = await db.read`select 1 from hub.usage where kind = 'run'`;
          return rows.length === 2 ? rows : null;
        });
      });

      await t.step(
        "any cursor gets exactly the rest, byte for byte; a bad one gets everything",
        async () => {
          const { frames } = parse(text);
          for (const after of [0, 1, 5, frames.length - 1, frames.length]) {
            const headers = { "last-event-id": String(after) };
            for (
              const replay of [
                await hub.call(`/v1/runs/${runId}/stream`, { headers }),
                await hub.call(`/v1/runs/${runId}/stream?after=${after}`),
                await hub.call(`/v1/runs/${runId}/stream?after=2`, { headers }),
              ]
            ) assert.deepEqual(parse(await replay.text()).frames, frames.slice(after));
          }
          for (const query of ["", "?after=999999999", "?after=x"]) {
            const replay = await hub.call(`/v1/runs/${runId}/stream${query}`);
            assert.deepEqual(parse(await replay.text()).frames, frames);
          }
        },
      );

      await t.step("the same message id is the same run; other content is refused", async () => {
        const before = upstream.requests.length;
        const again = await say(hub, session, { id: "m1", text: "What is 6*7, and the time?" });
        assert.deepEqual(parse(await again.text()).frames, parse(text).frames);
        const other = await say(hub, session, { id: "m1", text: "Something else" });
        assert.equal(other.status, 422);
        await other.body?.cancel();
        assert.equal(upstream.requests.length, before);
      });

      await t.step(
        "a run outlives its client, is named as active, and can be stopped",
        async () => {
          const gate = Promise.withResolvers<void>();
          const [first = "", ...rest] = framesOf(ANSWER) as string[];
          upstream.script({
            ...ANSWER,
            frames: [first, rest[0] ?? "", { wait: gate.promise }, ...rest.slice(1)],
          });
          const abort = new AbortController();
          const answer = await hub.call(`/v1/sessions/${session}/messages`, {
            body: { text: "Slowly" },
            signal: abort.signal,
          });
          await answer.body?.getReader().read();
          abort.abort();
          const busy = await say(hub, session, { text: "Quick" });
          assert.equal(busy.status, 409);
          assert.equal((await busy.json()).error.code, "run_active");
          const listed = await (await hub.call(`/v1/sessions/${session}/messages`)).json();
          assert.equal(listed.data.length, 3);
          const active = listed.activeRun.runId;
          gate.resolve();
          const followed = parse(await (await hub.call(`/v1/runs/${active}/stream`)).text());
          assert.deepEqual(checkLog(followed.events), []);
          assert.equal(followed.events.at(-1)?.event.type, "finish");

          upstream.script({ ...ANSWER, frames: [first, rest[0] ?? ""], end: "stall" });
          const running = say(hub, session, { text: "For ever", stream: false });
          const stuck = await eventually(async () => {
            const { activeRun } = await (await hub.call(`/v1/sessions/${session}`)).json();
            return activeRun?.runId as string | undefined;
          });
          const stop = await hub.call(`/v1/runs/${stuck}/stop`, { method: "POST" });
          assert.equal(stop.status, 202);
          await stop.body?.cancel();
          const unknown = `/v1/runs/run_${"0".repeat(32)}`;
          assert.equal((await hub.call(`${unknown}/stop`, { method: "POST" })).status, 404);
          assert.equal((await hub.call(unknown)).status, 404);
          const { run } = await (await running).json();
          assert.deepEqual(run, await (await hub.call(`/v1/runs/${stuck}`)).json());
          const again = await hub.call(`/v1/runs/${stuck}/stop`, { method: "POST" });
          assert.deepEqual([again.status, (await again.json()).stopping], [202, false]);
          assert.equal(run.status, "cancelled");
          assert.equal(run.finishReason, "aborted");
        },
      );

      await t.step("useChat clients: post, resume, regenerate", async () => {
        upstream.script(() => ANSWER);
        const body = {
          id: "chat-1",
          messages: [{ id: "u1", role: "user", parts: [{ type: "text", text: "Hello" }] }],
        };
        assert.equal(parseAiSdkChat(body).trigger, "submit");
        const posted = await hub.call("/api/chat", { body });
        assert.equal(posted.headers.get("x-vercel-ai-ui-message-stream"), "v1");
        const first = await posted.text();
        assert.match(first, /"type":"text-delta".*It/);
        assert.match(first, /\[DONE\]\n\n$/);
        assert.equal((await hub.call("/api/chat/chat-1/stream")).status, 204);
        const again = await hub.call("/api/chat", {
          body: { ...body, trigger: "regenerate-message", messageId: null },
        });
        assert.match(await again.text(), /"type":"finish"/);
        const history = await (await hub.call("/api/chat/chat-1/messages")).json();
        assert.deepEqual(history.data.map((message: JsonObject) => message["role"]), [
          "user",
          "assistant",
        ]);
      });

      await t.step("after a restart everything is as it was", async () => {
        const list = `/v1/sessions/${session}/messages`;
        const before = await (await hub.call(list)).json();
        const next = await hub.restart();
        assert.deepEqual(await (await next.call(list)).json(), before);
        const replay = await next.call(`/v1/runs/${runId}/stream`);
        assert.deepEqual(parse(await replay.text()).frames, parse(text).frames);
      });
    });
  } finally {
    await upstream.stop();
  }
});

function framesOf(reply: typeof TWO_CALLS): Frame[] {
  return [...(reply.frames ?? []) as Iterable<Frame>];
}

/** The reply with the names that this request offers for the two tools. */
function named(reply: typeof TWO_CALLS, offered: readonly string[]): typeof TWO_CALLS {
  const find = (part: string) => offered.find((name) => name.includes(part)) ?? part;
  return {
    ...reply,
    frames: framesOf(reply).map((frame) =>
      typeof frame === "string"
        ? frame.replace("hub__calculate", find("calculate"))
          .replace("hub__current_time", find("current_time"))
        : frame
    ),
  };
}
