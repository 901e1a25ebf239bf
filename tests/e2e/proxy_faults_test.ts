import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { readAll } from "../support/read_all.ts";
import {
  chatCompletion,
  chatError,
  chatFrames,
  chatStream,
  type Reply,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, type TestHub, withHub } from "../support/test_hub.ts";

const messages = [{ role: "user", content: "Hi" }];
const usage = { promptTokens: 5, completionTokens: 3 };
const SSE = { "content-type": "text/event-stream" };
const JSON_TYPE = { "content-type": "application/json" };

const ask = (hub: TestHub, model: string, stream: boolean) =>
  hub.call("/v1/chat/completions", { body: { model, stream, messages } });

/** A fault, the status the client gets when nothing else can answer, and the outcome and code of its usage row. */
type Fault = [name: string, reply: Reply, status: number, row: string];

const HEAD: Fault[] = [
  ["cut-before-head", { raw: "", end: "cut" }, 502, "cut upstream_cut"],
  ["reset-before-head", { raw: "", end: "reset" }, 502, "cut upstream_cut"],
  ["stall-before-head", { raw: "", end: "stall" }, 504, "timeout upstream_timeout"],
  ["no-http", { raw: "hello there\r\n\r\n", end: "cut" }, 502, "error upstream_malformed"],
  ["status-500", chatError(500), 500, "error upstream_error"],
  ["status-503", chatError(503), 503, "error upstream_error"],
  ["status-504", chatError(504), 502, "error upstream_error"],
  ["status-401", chatError(401), 502, "error upstream_unauthorized"],
];

const stream = (end: "clean" | "cut" | "reset" | "stall", endAfter: number) =>
  chatStream({ text: "one two three", endAfter, end });

const BEFORE: Fault[] = [
  ...HEAD,
  ["end", { headers: SSE, frames: [] }, 502, "cut upstream_cut"],
  ["clean", stream("clean", 1), 502, "cut upstream_cut"],
  ["cut", stream("cut", 1), 502, "cut upstream_cut"],
  ["reset", stream("reset", 1), 502, "cut upstream_cut"],
  ["stall", stream("stall", 1), 504, "timeout upstream_timeout"],
  ["half", { headers: SSE, frames: ['data: {"choices":[{"delta":{"con'] }, 502, "cut upstream_cut"],
  ["error-frame", chatStream({ text: "x", errorFrameAfter: 1 }), 502, "error upstream_error"],
  ["json", { headers: JSON_TYPE, body: { a: 1 } }, 502, "error upstream_malformed"],
];

const WHOLE: Fault[] = [
  ...HEAD,
  [
    "body-cut",
    { headers: JSON_TYPE, body: '{"id"', contentLength: 99, end: "cut" },
    502,
    "cut upstream_cut",
  ],
  [
    "body-reset",
    { headers: JSON_TYPE, body: '{"id"', contentLength: 99, end: "reset" },
    502,
    "cut upstream_cut",
  ],
  [
    "body-stall",
    { headers: JSON_TYPE, body: '{"id"', contentLength: 99, end: "stall" },
    504,
    "timeout upstream_timeout",
  ],
  ["body-broken", { headers: JSON_TYPE, body: '{"id": nope}' }, 502, "error upstream_malformed"],
  ["body-array", { headers: JSON_TYPE, body: "[]" }, 502, "error upstream_malformed"],
  [
    "error-in-200",
    { headers: JSON_TYPE, body: { error: { message: "no" } } },
    502,
    "error upstream_error",
  ],
];

const AFTER: Fault[] = [
  ["clean", stream("clean", 3), 200, "cut upstream_cut"],
  ["cut", stream("cut", 3), 200, "cut upstream_cut"],
  ["reset", stream("reset", 3), 200, "cut upstream_cut"],
  ["stall", stream("stall", 3), 200, "timeout upstream_timeout"],
  [
    "error-frame",
    chatStream({ text: "one two three", errorFrameAfter: 3 }),
    200,
    "error upstream_error",
  ],
];

const names = [...BEFORE.map(([n]) => `stream-${n}`), ...WHOLE.map(([n]) => `whole-${n}`)];

Deno.test("faults of providers", async (t) => {
  const bad = await startScriptedUpstream();
  const good = await startScriptedUpstream((request) =>
    request.json.stream === true
      ? chatStream({ text: "found it", usage })
      : chatCompletion({ text: "found it", usage })
  );
  /** Only what stalls meets timers: a busy machine must not. */
  const badFor = (name: string) => {
    if (!name.includes("stall")) return "bad";
    return name.startsWith("whole-body") || name.startsWith("after") ? "restless" : "hasty";
  };
  const models: JsonObject = {};
  for (const name of names) {
    models[name] = { targets: [`${badFor(name)}/failover-${name}`, "good/m"] };
  }
  const config = {
    providers: {
      bad: { baseUrl: bad.url, apiKey: "sk-bad-and-long-enough", maxRetries: 0 },
      hasty: {
        baseUrl: bad.url,
        apiKey: "sk-hasty",
        maxRetries: 0,
        timeouts: { firstTokenMs: 150 },
      },
      restless: {
        baseUrl: bad.url,
        apiKey: "sk-restless",
        maxRetries: 0,
        timeouts: { inactivityMs: 1000 },
      },
      again: { baseUrl: bad.url, apiKey: "sk-bad", maxRetries: 1 },
      good: { baseUrl: good.url, apiKey: "sk-good", maxRetries: 0 },
      gone: { baseUrl: "http://127.0.0.1:1/v1", apiKey: "sk-gone", maxRetries: 0 },
    },
    models: { ...models, nobody: { targets: ["gone/m", "good/m"] } },
    defaultModel: "good/m",
    // No comment opens a stream before its provider has failed.
    server: { keepaliveMs: 60_000 },
  };
  try {
    await withHub(config, async (hub) => {
      const rowOf = (model: string) =>
        eventually(async () => {
          const rows = await hub.hub.start.db.read<Record<string, unknown>[]>`
            select outcome, error_code, status, estimated, prompt_tokens::int as prompt,
              completion_tokens::int as completion, streamed, bytes_out::int as bytes
            from hub.usage where model = ${model}`;
          assert.ok(rows.length < 2, `${rows.length} rows for ${model}`);
          return rows[0];
        });

      const wanted = new Map<string, string>();
      for (const [kind, faults] of [["stream", BEFORE], ["whole", WHOLE]] as const) {
        for (const [name, reply, status, row] of faults) {
          await t.step(
            `${kind}, before content: ${name} is ${status}, or the next target`,
            async () => {
              bad.script(reply);
              const model = `${kind}-${name}`;
              const alone = await ask(hub, `${badFor(model)}/${model}`, kind === "stream");
              const { text, broken } = await readAll(alone);
              assert.equal(alone.status, status, text);
              assert.equal(broken, false);
              assert.equal(alone.headers.get("content-type"), "application/json");
              assert.equal(typeof JSON.parse(text).error.message, "string");
              const helped = await ask(hub, model, kind === "stream");
              const found = await readAll(helped);
              assert.equal(helped.status, 200, found.text);
              assert.match(found.text, /found/);
              assert.doesNotMatch(found.text, /one|"error"/);
              const { outcome, error_code, estimated, completion } = await rowOf(model);
              assert.equal(`${outcome} ${error_code}`, row);
              if (kind === "stream") return;
              // What came of an answer counts, and work that nobody waited for; an error that the provider told does not.
              const hasBody = name.startsWith("body-");
              assert.equal(estimated, hasBody || name === "stall-before-head");
              assert.equal(completion !== null && Number(completion) > 0, hasBody);
            },
          );
        }
      }

      for (const [name, reply, , row] of AFTER) {
        await t.step(`after content: ${name} is an error frame and a break`, async () => {
          bad.script(reply);
          const answer = await ask(hub, `${badFor(`after-${name}`)}/after-${name}`, true);
          assert.equal(answer.status, 200);
          const { text, broken } = await readAll(answer);
          assert.equal(broken, true, text);
          const last = JSON.parse(text.trimEnd().split("\n\n").at(-1)?.slice(6) ?? "");
          assert.equal(typeof last.error.message, "string");
          assert.match(text, /one/);
          assert.doesNotMatch(text, /\[DONE\]|"finish_reason":"/);
          wanted.set(`after-${name}`, row);
        });
      }

      await t.step("each of these attempts is one usage row that says how it ended", async () => {
        for (const [model, row] of wanted) {
          const { outcome, error_code, estimated, completion, bytes } = await rowOf(model);
          assert.equal(`${outcome} ${error_code}`, row, model);
          if (!model.startsWith("after-")) continue;
          assert.equal(estimated, true);
          assert.ok(Number(completion) > 0 && Number(bytes) > 0, model);
        }
      });

      await t.step("a malformed frame passes as it came", async () => {
        const [first = "", ...rest] = chatFrames({ text: "still here" });
        const frames = [first, "data: {broken\n\n", ...rest];
        bad.script({ headers: SSE, frames });
        const { text, broken } = await readAll(await ask(hub, "bad/malformed", true));
        assert.deepEqual({ text, broken }, { text: frames.join(""), broken: false });
      });

      for (const streamed of [true, false]) {
        await t.step(`a 500 is tried again (stream: ${streamed})`, async () => {
          const text = "second time";
          bad.script([chatError(500), streamed ? chatStream({ text }) : chatCompletion({ text })]);
          const before = bad.requests.length;
          const answer = await ask(hub, `again/r-${streamed}`, streamed);
          assert.equal(answer.status, 200);
          assert.match((await readAll(answer)).text, /second/);
          const [one, two, ...more] = bad.requests.slice(before);
          assert.equal(more.length, 0);
          assert.deepEqual(one?.text, two?.text);
        });
      }

      await t.step("a provider that repeats the hub's key does not give it away", async () => {
        const key = "sk-bad-and-long-enough";
        const error = { message: `The key ${key} is not allowed`, code: key, param: key };
        const said = [
          { status: 400, headers: JSON_TYPE, body: { error } },
          { headers: JSON_TYPE, body: { error } },
          chatStream({ text: "x", errorFrameAfter: 1, error }),
          chatStream({ text: "x", errorFrameAfter: 2, error }),
        ];
        for (const [index, reply] of said.entries()) {
          bad.script(reply);
          const { text } = await readAll(await ask(hub, `bad/echo-${index}`, index > 1));
          assert.match(text, /\[redacted\] is not allowed/);
          assert.ok(!text.includes(key), text);
        }
      });

      await t.step("a provider that is not there is passed over", async () => {
        const answer = await ask(hub, "nobody", true);
        assert.match((await readAll(answer)).text, /found/);
        assert.equal(await ask(hub, "gone/x", false).then(readStatus), 502);
      });

      await t.step("a whole answer with usage is accounted exactly", async () => {
        await (await ask(hub, "good/exact", false)).body?.cancel();
        const { bytes, ...facts } = await rowOf("exact");
        assert.ok(Number(bytes) > 0);
        assert.deepEqual(facts, {
          outcome: "ok",
          error_code: null,
          status: 200,
          estimated: false,
          prompt: 5,
          completion: 3,
          streamed: false,
        });
      });
    });
  } finally {
    await bad.stop();
    await good.stop();
  }
});

async function readStatus(answer: Response): Promise<number> {
  await answer.body?.cancel();
  return answer.status;
}
