import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { chatCompletion, type Reply, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, type TestHub, withReplicas } from "../support/test_hub.ts";

const usage = { input_tokens: 7, output_tokens: 3 };
const event = (value: { type: string } & JsonObject) =>
  `event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`;
const message = { id: "msg_1", type: "message", role: "assistant", model: "m" };
const FRAMES = [
  event({ type: "message_start", message: { ...message, content: [], usage } }),
  event({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }),
  ...["One ", "two ", "three"].map((text) =>
    event({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } })
  ),
  event({ type: "content_block_stop", index: 0 }),
  event({ type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 3 } }),
  event({ type: "message_stop" }),
];
const LIMITS = { "anthropic-ratelimit-requests-remaining": "41", "retry-after": "7" };
const whole = (more: Reply = {}): Reply => ({
  headers: { ...LIMITS, "content-type": "application/json" },
  body: {
    ...message,
    content: [{ type: "text", text: "One two three" }],
    stop_reason: "end_turn",
    usage,
  },
  ...more,
});
const streamed = (more: Reply = {}): Reply => ({
  headers: { ...LIMITS, "content-type": "text/event-stream" },
  frames: FRAMES,
  ...more,
});

const asked = (more: JsonObject = {}) => ({
  model: "ant/m",
  max_tokens: 100,
  messages: [{ role: "user", content: "Hi" }],
  ...more,
});

/** Without comments, which say nothing. */
const framesOf = (text: string) => text.replaceAll(/^:.*\n\n/gm, "");

Deno.test("messages of Anthropic's: one call for fifty duplicates, and the provider's limits pass", async (t) => {
  const native = await startScriptedUpstream();
  const chat = await startScriptedUpstream(
    chatCompletion({ text: "Hi", headers: { "x-ratelimit-remaining-tokens": "9" } }),
  );
  const config = {
    providers: {
      ant: { kind: "anthropic", baseUrl: native.url, apiKey: "sk-ant", maxRetries: 0 },
      up: { baseUrl: chat.url, apiKey: "sk-up", maxRetries: 0 },
    },
    defaultModel: "ant/m",
  };
  const ask = (hub: TestHub, body: JsonObject, headers: Record<string, string> = {}) =>
    hub.call("/v1/messages", { body, headers });
  try {
    await withReplicas([config, config], async (first, second) => {
      for (const stream of [false, true]) {
        await t.step(stream ? "streamed" : "whole", async () => {
          const key = { "idempotency-key": `same-${stream}` };
          const before = native.requests.length;
          let open = () => {};
          const gate = { wait: new Promise<void>((resolve) => open = resolve) };
          native.script(() =>
            stream
              ? streamed({ frames: [...FRAMES.slice(0, 3), gate, ...FRAMES.slice(3)] })
              : whole({ before: [gate] })
          );
          const asking = Promise.all(Array.from({ length: 50 }, async (_, at) => {
            const answer = await ask(at % 2 === 0 ? first : second, asked({ stream }), key);
            return {
              status: answer.status,
              replayed: answer.headers.get("idempotent-replayed"),
              text: framesOf(await answer.text()),
            };
          }));
          await native.until(() => native.requests.length > before);
          // Nobody knows when all have come; whoever comes after the end is answered from what is kept.
          open();
          const answers = await asking;
          assert.equal(native.requests.length, before + 1);
          assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
          assert.equal(new Set(answers.map(({ text }) => text)).size, 1);
          assert.match(answers[0]?.text ?? "", stream ? /message_stop/ : /One two three/);
          assert.equal(answers.filter(({ replayed }) => replayed !== "true").length, 1);
          const other = await ask(second, asked({ stream, max_tokens: 99 }), key);
          assert.equal(other.status, 422);
          const refused = await other.json();
          assert.deepEqual([refused.type, refused.error.type], ["error", "invalid_request_error"]);
          assert.equal(native.requests.length, before + 1);
          const { db } = first.hub.start;
          const rows = await eventually(async () => {
            const rows = await db.read`select streamed from hub.usage where streamed = ${stream}`;
            return rows.length > 0 ? rows : null;
          });
          assert.equal(rows.length, 1);
        });
      }

      await t.step(
        "anthropic-ratelimit-* and retry-after, of answers and of refusals",
        async () => {
          const name = "anthropic-ratelimit-requests-remaining";
          for (const [reply, status] of [[whole(), 200], [streamed(), 200]] as const) {
            native.script(reply);
            const answer = await ask(first, asked({ stream: reply.frames !== undefined }));
            assert.deepEqual([answer.status, answer.headers.get(name)], [status, "41"]);
            await answer.text();
          }
          native.script({
            status: 429,
            headers: { ...LIMITS, "content-type": "application/json" },
            body: { type: "error", error: { type: "rate_limit_error", message: "Too many" } },
          });
          const limited = await ask(first, asked());
          assert.equal(limited.status, 429);
          assert.deepEqual([limited.headers.get(name), limited.headers.get("retry-after")], [
            "41",
            "7",
          ]);
          assert.equal((await limited.json()).error.type, "rate_limit_error");
        },
      );

      await t.step(
        "x-ratelimit-* of a provider that speaks chat completions, in both dialects",
        async () => {
          const name = "x-ratelimit-remaining-tokens";
          const translated = await ask(second, asked({ model: "up/m" }));
          assert.deepEqual([translated.status, translated.headers.get(name)], [200, "9"]);
          await translated.text();
          const body = { model: "up/m", messages: [{ role: "user", content: "Hi" }] };
          const plain = await second.call("/v1/chat/completions", { body });
          assert.deepEqual([plain.status, plain.headers.get(name)], [200, "9"]);
          await plain.text();
        },
      );
    });
  } finally {
    await native.stop();
    await chat.stop();
  }
});
