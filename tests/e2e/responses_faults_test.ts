import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { readAll } from "../support/read_all.ts";
import { nativeFrames, nativeReply } from "../support/responses.ts";
import {
  chatCompletion,
  chatError,
  chatFrames,
  chatStream,
  type Reply,
  type ReplyEnd,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, type TestHub, tookUnder, withHub } from "../support/test_hub.ts";

const SSE = { "content-type": "text/event-stream" };
const JSON_TYPE = { "content-type": "application/json" };
const text = "one two three";
const KEY = "sk-up-and-long-enough";
const CUTS = ["clean", "cut", "reset", "stall"] as const;
const error = { type: "error", code: "server_error", message: "It broke", param: null };

const ask = (hub: TestHub, model: string, stream: boolean, more: JsonObject = {}) =>
  hub.call("/v1/responses", { body: { model, stream, input: "Hi", ...more } });

const eventsOf = (text: string): JsonObject[] =>
  text.split("\n").filter((line) => line.startsWith("data: ")).map((line) =>
    JSON.parse(line.slice("data: ".length))
  );

const native = (endAfter: number, end: ReplyEnd): Reply => ({
  headers: SSE,
  frames: nativeFrames({ text }).slice(0, endAfter),
  end,
});
const failed = {
  type: "response.failed",
  response: {
    id: "resp_x",
    status: "failed",
    error: { code: "server_error", message: "It broke" },
  },
};
const nativeFailed = (before: number, event: JsonObject): Reply => ({
  headers: SSE,
  frames: [
    ...nativeFrames({ text }).slice(0, before),
    `event: ${event["type"]}\ndata: ${JSON.stringify(event)}\n\n`,
  ],
});

/** Faults of each kind of provider: before its first content, and behind it. */
const DIALECTS = {
  chat: {
    before: [
      ...CUTS.map((end): [string, Reply] => [end, chatStream({ text, endAfter: 1, end })]),
      ["error-frame", chatStream({ text, errorFrameAfter: 1 })],
      ["empty", { headers: SSE, frames: [] }],
      ["json", { headers: JSON_TYPE, body: { a: 1 } }],
    ],
    after: [
      ...CUTS.map((end): [string, Reply] => [end, chatStream({ text, endAfter: 3, end })]),
      ["error-frame", chatStream({ text, errorFrameAfter: 3 })],
    ],
  },
  native: {
    before: [
      ...CUTS.map((end): [string, Reply] => [end, native(4, end)]),
      ["failed", nativeFailed(2, failed)],
      ["error", nativeFailed(2, error)],
      ["empty", { headers: SSE, frames: [] }],
      ["json", { headers: JSON_TYPE, body: { a: 1 } }],
    ],
    after: [
      ...CUTS.map((end): [string, Reply] => [end, native(6, end)]),
      ["failed", nativeFailed(6, failed)],
      ["error", nativeFailed(6, error)],
    ],
  },
} satisfies Record<string, Record<string, [string, Reply][]>>;

const OUTCOMES: Record<string, string> = {
  stall: "timeout upstream_timeout",
  "error-frame": "error upstream_error",
  failed: "error upstream_error",
  error: "error upstream_error",
  json: "error upstream_malformed",
};

Deno.test("faults of providers behind /v1/responses", async (t) => {
  const bad = await startScriptedUpstream();
  const good = await startScriptedUpstream((request) =>
    request.path === "/v1/responses"
      ? nativeReply(request, { text: "found it" })
      : request.json.stream === true
      ? chatStream({ text: "found it" })
      : chatCompletion({ text: "found it" })
  );
  /** Only what stalls meets timers: a busy machine must not. */
  const providerOf = (dialect: string, name: string) =>
    name === "stall" ? `hasty${dialect}` : dialect;
  const models: JsonObject = {};
  for (const [dialect, { before }] of Object.entries(DIALECTS)) {
    for (const [name] of before) {
      const model = `${dialect}-${name}`;
      const target = `${providerOf(dialect, name)}/${model}`;
      models[`${model}-chat`] = { targets: [target, "goodchat/m"] };
      models[`${model}-native`] = { targets: [target, "goodnative/m"] };
    }
  }
  const limits = { maxRetries: 0, apiKey: KEY };
  const timeouts = { firstTokenMs: 1000, inactivityMs: 1000 };
  const config = {
    providers: {
      chat: { ...limits, baseUrl: bad.url },
      native: { ...limits, kind: "openai", baseUrl: bad.url },
      hastychat: { ...limits, baseUrl: bad.url, timeouts },
      hastynative: { ...limits, kind: "openai", baseUrl: bad.url, timeouts },
      goodchat: { ...limits, baseUrl: good.url },
      goodnative: { ...limits, kind: "openai", baseUrl: good.url },
    },
    models,
    defaultModel: "goodchat/m",
    // No comment opens a stream before its provider has failed.
    server: { keepaliveMs: 60_000 },
  };
  try {
    await withHub(config, async (hub) => {
      const rowOf = (model: string) =>
        eventually(async () => {
          const [row] = await hub.hub.start.db.read<{ outcome: string; error_code: string }[]>`
            select outcome, error_code from hub.usage where model = ${model}`;
          return row;
        });
      for (const [dialect, { before, after }] of Object.entries(DIALECTS)) {
        for (const [name, reply] of before) {
          await t.step(`${dialect}, before content: ${name}`, async () => {
            bad.script(reply);
            const model = `${dialect}-${name}`;
            const alone = await ask(hub, `${providerOf(dialect, name)}/${model}`, true);
            const { text, broken } = await readAll(alone);
            assert.equal(alone.status, name === "stall" ? 504 : 502, text);
            assert.equal(broken, false);
            assert.equal(typeof JSON.parse(text).error.message, "string");
            const row = await rowOf(model);
            const wanted = OUTCOMES[name] ?? "cut upstream_cut";
            assert.equal(`${row.outcome} ${row.error_code}`, wanted);
            for (const kind of ["chat", "native"]) {
              const helped = await ask(hub, `${model}-${kind}`, true);
              const found = await readAll(helped);
              assert.equal(helped.status, 200, found.text);
              assert.equal(found.broken, false);
              const events = eventsOf(found.text);
              assert.equal(events[0]?.["type"], "response.created");
              assert.equal(events.at(-1)?.["type"], "response.completed");
              assert.match(found.text, /found it/);
              assert.doesNotMatch(found.text, /"one|response\.failed|broke/);
            }
          });
        }
        for (const [name, reply] of after) {
          await t.step(`${dialect}, after content: ${name} ends in response.failed`, async () => {
            bad.script(reply);
            const model = `${dialect}-after-${name}`;
            const answer = await ask(hub, `${providerOf(dialect, name)}/${model}`, true);
            assert.equal(answer.status, 200);
            const { text, broken } = await readAll(answer);
            // What the provider itself told is an end of its own.
            assert.equal(broken, !(name in OUTCOMES) || name === "stall", text);
            const events = eventsOf(text);
            const last = events.at(-1);
            assert.equal(last?.["type"], "response.failed");
            const response = last?.["response"] as JsonObject;
            const created = events[0]?.["response"] as JsonObject;
            assert.equal(response["id"], created["id"]);
            assert.equal(response["status"], "failed");
            assert.deepEqual(Object.keys(response["error"] as JsonObject), ["code", "message"]);
            assert.deepEqual(
              events.map(({ sequence_number: number }) => number),
              events.map((_, index) => index),
            );
            assert.doesNotMatch(text, /response\.completed|output_item\.done/);
            const row = await rowOf(model);
            assert.equal(
              `${row.outcome} ${row.error_code}`,
              OUTCOMES[name] ?? "cut upstream_cut",
            );
          });
        }
      }

      await t.step("a malformed frame is no fault by itself", async () => {
        const [first = "", ...rest] = chatFrames({ text: "still here" });
        bad.script({ headers: SSE, frames: [first, "data: {broken\n\n", ...rest] });
        const chat = await readAll(await ask(hub, "chat/malformed", true));
        assert.match(chat.text, /"text":"still here"/);
        const [one = "", ...more] = nativeFrames({ text: "still here" });
        const frames = [one, "data: {broken\n\n", ...more];
        bad.script({ headers: SSE, frames });
        const passed = await readAll(await ask(hub, "native/malformed", true));
        assert.equal(passed.text, frames.join(""));
      });

      await t.step("errors of a provider keep their status; its key stays hidden", async () => {
        for (const dialect of ["chat", "native"]) {
          for (
            const [status, seen] of [[400, 400], [404, 404], [429, 429], [500, 500], [401, 502]]
          ) {
            bad.script(
              chatError(status ?? 0, { message: `${KEY} is not good`, code: "some_code" }),
            );
            const answer = await ask(hub, `${dialect}/m`, false);
            const body = await answer.json();
            assert.equal(answer.status, seen);
            assert.ok(!JSON.stringify(body).includes(KEY));
          }
        }
        bad.script({ headers: JSON_TYPE, body: { ...failed.response } });
        const inPlace = await ask(hub, "native/m", false);
        assert.equal(inPlace.status, 502);
        await inPlace.body?.cancel();
      });
    });
  } finally {
    await bad.stop();
    await good.stop();
  }
});

const never: Reply = { before: [{ wait: new Promise(() => {}) }], body: "" };

Deno.test("a client of /v1/responses that leaves stops its provider at once", async (t) => {
  const upstream = await startScriptedUpstream();
  const limits = { apiKey: KEY, baseUrl: upstream.url, maxConcurrent: 1, maxRetries: 0 };
  const config = {
    providers: {
      chat: limits,
      native: { ...limits, kind: "openai" },
      hastychat: { ...limits, timeouts: { firstTokenMs: 1000 } },
      hastynative: { ...limits, kind: "openai", timeouts: { firstTokenMs: 1000 } },
    },
    defaultModel: "chat/m",
    server: { keepaliveMs: 50 },
  };
  const phases: [string, boolean, Record<string, Reply>, RegExp | null][] = [
    ["head", false, { chat: never, native: never }, null],
    ["head of a stream", true, { chat: never, native: never }, /: open/],
    [
      "mid-stream",
      true,
      { chat: chatStream({ text, endAfter: 3, end: "stall" }), native: native(6, "stall") },
      /"one /,
    ],
  ];
  try {
    await withHub(config, async (hub) => {
      for (const dialect of ["chat", "native"]) {
        for (const [name, stream, replies, reads] of phases) {
          await t.step(`${dialect}, ${name}`, async () => {
            upstream.script(replies[dialect] ?? never);
            await tookUnder(250, async () => {
              const requests = upstream.requests.length;
              const closes = upstream.closedByClient.length;
              const leaving = new AbortController();
              const asked = hub.call("/v1/responses", {
                body: { model: `${dialect}/${name.replaceAll(" ", "-")}`, stream, input: "Hi" },
                signal: leaving.signal,
              });
              asked.catch(() => {});
              await upstream.until(() => upstream.requests.length > requests);
              if (reads !== null) {
                let seen = "";
                for await (
                  const chunk of (await asked).body?.values({ preventCancel: true }) ?? []
                ) {
                  seen += new TextDecoder().decode(chunk);
                  if (reads.test(seen)) break;
                }
              }
              const leftMs = performance.now();
              leaving.abort();
              await upstream.until(() => upstream.closedByClient.length > closes);
              return (upstream.closedByClient.at(-1)?.atMs ?? NaN) - leftMs;
            });
            const model = name.replaceAll(" ", "-");
            const row = await eventually(async () => {
              const [row] = await hub.hub.start.db.read<{ outcome: string }[]>`
                select outcome from hub.usage where model = ${model} and provider = ${dialect}`;
              return row;
            });
            assert.equal(row.outcome, "aborted");
          });
        }
        await t.step(
          `${dialect}: a stream that was promised before it failed tells it`,
          async () => {
            upstream.script(never);
            const answer = await ask(hub, `hasty${dialect}/late`, true);
            assert.equal(answer.status, 200);
            const { text, broken } = await readAll(answer);
            assert.equal(broken, true);
            const events = eventsOf(text);
            assert.deepEqual(events.map(({ type }) => type), [
              "response.created",
              "response.failed",
            ]);
            assert.deepEqual(events.map(({ sequence_number: number }) => number), [0, 1]);
          },
        );
      }
    });
  } finally {
    await upstream.stop();
  }
});
