import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import postgres from "postgres";
import type { JsonObject } from "../../src/core/json.ts";
import {
  chatCompletion,
  type Reply,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, type TestHub, tookUnder, withHub } from "../support/test_hub.ts";

const messages = [{ role: "user" as const, content: "Hi" }];
const asked = { model: "ant/m", max_tokens: 100, messages };
const sse = (event: { type: string } & JsonObject) =>
  `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
const usage = { input_tokens: 7, cache_read_input_tokens: 3, output_tokens: 1 };
const START = sse({
  type: "message_start",
  message: { id: "msg_1", type: "message", role: "assistant", model: "m", content: [], usage },
});
const BLOCK = sse({
  type: "content_block_start",
  index: 0,
  content_block: { type: "text", text: "" },
});
const text = (said: string) =>
  sse({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: said } });
const END = [
  sse({ type: "content_block_stop", index: 0 }),
  sse({
    type: "message_delta",
    delta: { stop_reason: "end_turn", stop_sequence: null },
    usage: { output_tokens: 12 },
  }),
  sse({ type: "message_stop" }),
];
const ping = sse({ type: "ping" });
const FRAMES = [START, ping, BLOCK, text("Grüezi "), ping, text("🙂"), ...END];
const stream = (frames: Reply["frames"] = FRAMES, more: Reply = {}): Reply => ({
  headers: { "content-type": "text/event-stream" },
  frames,
  ...more,
});
const WHOLE = JSON.stringify({
  id: "msg_1",
  type: "message",
  role: "assistant",
  model: "m",
  content: [{ type: "text", text: "Hello" }],
  stop_reason: "end_turn",
  stop_sequence: null,
  usage,
  unknown: { kept: true },
});
const json = (body: string): Reply => ({ headers: { "content-type": "application/json" }, body });

async function withNativeHub(
  body: (
    parts: { hub: TestHub; native: ScriptedUpstream; chat: ScriptedUpstream; client: Anthropic },
  ) => Promise<void>,
): Promise<void> {
  const native = await startScriptedUpstream();
  const chat = await startScriptedUpstream();
  try {
    const config = {
      providers: {
        ant: { kind: "anthropic", baseUrl: native.url, apiKey: "sk-ant", maxRetries: 0 },
        up: { baseUrl: chat.url, apiKey: "sk-own", maxRetries: 0 },
      },
      models: { mixed: { targets: ["up/m", "ant/m"] } },
      defaultModel: "ant/m",
    };
    await withHub(config, async (hub) => {
      const client = new Anthropic({ apiKey: hub.key, baseURL: hub.url, maxRetries: 0 });
      await body({ hub, native, chat, client });
    });
  } finally {
    await native.stop();
    await chat.stop();
  }
}

Deno.test("Messages pass to a provider of Anthropic byte for byte", async (t) => {
  await withNativeHub(async ({ hub, native, chat, client }) => {
    const odd =
      '{ "max_tokens":1e2,"model" : "ant/m",\n"messages":[{"role":"user","content":"\\u00e9"}],' +
      '"thread":{"type":"create"},"new_field":[1.0]';
    const post = (path: string, body: string, headers: Record<string, string> = {}) =>
      fetch(hub.url + path, {
        method: "POST",
        headers: { "x-api-key": hub.key, "content-type": "application/json", ...headers },
        body,
      });

    await t.step("whole, at every address, with its fields", async () => {
      for (const path of ["/v1/messages?beta=true", "/messages", "/v1/v1/messages"]) {
        native.script(json(WHOLE));
        const response = await post(path, `${odd}}`, {
          "anthropic-version": "2026-10-21",
          "anthropic-beta": "a-2026,b-2026",
        });
        assert.equal(await response.text(), WHOLE);
        assert.equal(response.status, 200);
        const sent = native.requests.at(-1);
        assert.equal(sent?.path, "/v1/messages");
        assert.equal(sent?.text, `${odd}}`.replace('"ant/m"', '"m"'));
        assert.equal(sent?.header("x-api-key"), "sk-ant");
        assert.equal(sent?.header("authorization"), null);
        assert.deepEqual(
          sent?.headers.filter(([name]) => name.startsWith("anthropic-")),
          [["anthropic-version", "2026-10-21"], ["anthropic-beta", "a-2026,b-2026"]],
        );
      }
    });

    await t.step("streamed, however the bytes are cut", async () => {
      const bytes = new TextEncoder().encode(FRAMES.join(""));
      for (const size of [bytes.length, 1, 7]) {
        const frames: Uint8Array[] = [];
        for (let at = 0; at < bytes.length; at += size) frames.push(bytes.subarray(at, at + size));
        native.script(stream(frames));
        const response = await post("/v1/messages", `${odd},"stream":true}`);
        assert.equal(await response.text(), FRAMES.join(""));
      }
      native.script(stream());
      const message = await client.messages.stream(asked).finalMessage();
      assert.deepEqual(message.content.map((block) => block.type === "text" && block.text), [
        "Grüezi 🙂",
      ]);
    });

    await t.step("count_tokens: the provider counts, elsewhere the hub estimates", async () => {
      native.script(json('{"input_tokens":42}'));
      const counted = await client.messages.countTokens({ model: "ant/m", messages });
      assert.equal(counted.input_tokens, 42);
      assert.equal(native.requests.at(-1)?.path, "/v1/messages/count_tokens");
      const { data, response } = await client.messages.countTokens({ model: "up/m", messages })
        .withResponse();
      assert.ok(data.input_tokens > 5 && data.input_tokens < 30, String(data.input_tokens));
      assert.equal(response.headers.get("x-loophub-token-count"), "estimated");
      assert.equal(chat.requests.length, 0);
    });

    await t.step("a failure before the first content goes to the next target", async () => {
      chat.script({ status: 503, body: { error: { message: "busy" } } });
      native.script(stream());
      const message = await client.messages.stream({ ...asked, model: "mixed" }).finalMessage();
      assert.equal(message.usage.output_tokens, 12);
    });

    await t.step("what no chat can carry goes to the target that can", async () => {
      native.script(json(WHOLE));
      const before = chat.requests.length;
      const tools = [{ type: "web_search_20250305", name: "web_search" }];
      const response = await hub.call("/v1/messages", {
        body: { ...asked, model: "mixed", tools },
      });
      assert.equal(await response.text(), WHOLE);
      assert.equal(chat.requests.length, before);
    });

    await t.step("thinking of another provider stays away from Anthropic", async () => {
      chat.script(chatCompletion({ reasoning: "Hm", text: "Hello" }));
      const first = await client.messages.create({
        ...asked,
        model: "up/m",
        thinking: { type: "enabled", budget_tokens: 2000 },
      });
      assert.deepEqual(first.content.map(({ type }) => type), ["thinking", "text"]);
      assert.equal(JSON.parse(chat.requests.at(-1)?.text ?? "").reasoning_effort, "low");
      native.script(json(WHOLE));
      await client.messages.create({
        ...asked,
        messages: [...messages, { role: "assistant", content: first.content }, ...messages],
      });
      assert.deepEqual(JSON.parse(native.requests.at(-1)?.text ?? "").messages[1], {
        role: "assistant",
        content: [{ type: "text", text: "Hello" }],
      });
    });

    await t.step("an error in the stream is told as one, and no end follows", async () => {
      const error = sse({ type: "error", error: { type: "overloaded_error", message: "Full" } });
      native.script(stream([START, BLOCK, text("one"), error, ...END]));
      const response = await post("/v1/messages", `${odd},"stream":true}`);
      const shown = await response.text().catch(() => "cut");
      assert.ok(!shown.includes("message_stop"));
      native.script(stream([START, BLOCK, text("one"), error, ...END]));
      await assert.rejects(
        client.messages.stream(asked).finalMessage(),
        (error) => error instanceof Anthropic.APIError && /Full/.test(error.message),
      );
    });

    await t.step("each answer has its row of usage, a count of tokens none to pay", async () => {
      native.script(json(WHOLE));
      const { headers } = await post("/v1/messages", `${odd}}`);
      native.script(json('{"input_tokens":42}'));
      const counted = await post("/v1/messages/count_tokens", `${odd}}`);
      const ids = [headers.get("x-request-id"), counted.headers.get("x-request-id")];
      await counted.body?.cancel();
      const sql = postgres(hub.databaseUrl, { max: 1 });
      try {
        const tokens = await Promise.all(ids.map((id) =>
          eventually(async () => {
            const rows = await sql`
              select prompt_tokens, completion_tokens from hub.usage where request_id = ${id}`;
            return rows[0];
          })
        ));
        assert.deepEqual(tokens.map((row) => Object.values(row).map(Number)), [[10, 1], [0, 0]]);
      } finally {
        await sql.end();
      }
    });
  });
});

Deno.test("every failure of the Messages routes has Anthropic's shape", async () => {
  await withNativeHub(async ({ hub, native }) => {
    const auth = { "x-api-key": hub.key };
    const cases: [path: string, init: RequestInit, status: number, type: string][] = [
      ["/v1/messages", { method: "POST", body: "{}" }, 401, "authentication_error"],
      ["/v1/messages", { method: "POST", headers: auth, body: "{" }, 400, "invalid_request_error"],
      ["/v1/messages", { method: "GET", headers: auth }, 405, "invalid_request_error"],
      [
        "/v1/messages",
        { method: "POST", headers: auth, body: '{"model":"none/x","messages":[]}' },
        404,
        "not_found_error",
      ],
      [
        "/v1/messages/count_tokens",
        { method: "POST", headers: auth, body: "[]" },
        400,
        "invalid_request_error",
      ],
      [
        "/messages",
        {
          method: "POST",
          headers: { ...auth, "anthropic-beta": "é" },
          body: JSON.stringify(asked),
        },
        400,
        "invalid_request_error",
      ],
      [
        "/messages",
        { method: "POST", headers: auth, body: `{"a":"${"x".repeat(33 * 1024 * 1024)}"}` },
        413,
        "request_too_large",
      ],
    ];
    for (const [path, init, status, type] of cases) {
      const response = await fetch(hub.url + path, init);
      const body = await response.json();
      assert.deepEqual(
        { status: response.status, type: body.type, error: body.error?.type },
        { status, type: "error", error: type },
        `${init.method} ${path}: ${JSON.stringify(body)}`,
      );
      assert.equal(body.request_id, response.headers.get("x-request-id"));
      assert.equal(response.headers.get("x-should-retry"), "false");
    }
    for (const [status, type] of [[529, "overloaded_error"], [500, "api_error"]] as const) {
      native.script({ status, body: { type: "error", error: { type, message: "no" } } });
      const response = await hub.call("/v1/messages", { body: asked });
      assert.equal(response.status, status);
      assert.equal((await response.json()).error.type, type);
      assert.equal(response.headers.get("x-should-retry"), null);
    }
  });
});

Deno.test("a client that leaves stops either provider at once", async () => {
  await withNativeHub(async ({ hub, native, chat }) => {
    for (const [model, upstream] of [["ant/m", native], ["up/m", chat]] as const) {
      const frames = upstream === native ? [START, BLOCK, text("one")] : [
        'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"one"}}]}\n\n',
      ];
      upstream.script(stream(frames, { end: "stall" }));
      await tookUnder(250, async () => {
        const closes = upstream.closedByClient.length;
        const leaving = new AbortController();
        const response = await hub.call("/v1/messages", {
          body: { ...asked, model, stream: true },
          signal: leaving.signal,
        });
        const reader = response.body?.getReader();
        await reader?.read();
        const leftMs = performance.now();
        leaving.abort();
        await reader?.read().catch(() => {});
        await upstream.until(() => upstream.closedByClient.length > closes);
        return (upstream.closedByClient.at(-1)?.atMs ?? NaN) - leftMs;
      });
    }
  });
});
