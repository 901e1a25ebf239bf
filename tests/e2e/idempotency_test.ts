import assert from "node:assert/strict";
import type { Json } from "../../src/core/json.ts";
import {
  chatCompletion,
  chatError,
  chatFrames,
  chatStream,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, type TestHub, tookUnder, withReplicas } from "../support/test_hub.ts";

const URL_PATH = "/v1/chat/completions";
const usage = { promptTokens: 5, completionTokens: 3 };
const bodyOf = (more: Record<string, Json> = {}) => ({
  model: "one/m",
  messages: [{ role: "user", content: "Hi" }],
  ...more,
});

interface Parts {
  first: TestHub;
  second: TestHub;
  upstream: ScriptedUpstream;
}

async function withTwo(body: (parts: Parts) => Promise<void>, leaseMs = 15_000): Promise<void> {
  const upstream = await startScriptedUpstream();
  const config = {
    providers: { one: { baseUrl: upstream.url, maxRetries: 0 } },
    defaultModel: "one/m",
    runs: { leaseMs },
  };
  try {
    await withReplicas(
      [config, config],
      (first, second) => body({ first, second, upstream }),
    );
  } finally {
    await upstream.stop();
  }
}

const ask = (
  hub: TestHub,
  key: string,
  more: Record<string, Json> = {},
  options: { headers?: Record<string, string>; signal?: AbortSignal } = {},
) =>
  hub.call(URL_PATH, {
    ...options,
    body: bodyOf(more),
    headers: { "idempotency-key": key, ...options.headers },
  });

/** The frames of a stream without comments. */
const framesOf = (text: string) => text.replaceAll(/^:.*\n\n/gm, "");

const isReplayed = (answer: Response) => answer.headers.get("idempotent-replayed") === "true";

/** Usage rows, once they are written; there must be as many as this and no more. */
async function usageRows(hub: TestHub, count: number) {
  const { db } = hub.hub.start;
  const read = () => db.read`select request_id, outcome, status from hub.usage order by started_at`;
  await eventually(async () => (await read()).length >= count ? true : null);
  const rows = await read();
  assert.equal(rows.length, count);
  return rows;
}

/** Reads a stream until its text has what is wanted. */
async function readUntil(answer: Response, wanted: string) {
  const reader = answer.body?.getReader() ?? assert.fail("no body");
  const decoder = new TextDecoder();
  let text = "";
  while (!text.includes(wanted)) {
    const { done, value } = await reader.read();
    assert.ok(!done, text);
    text += decoder.decode(value, { stream: true });
  }
  return {
    reader,
    async rest() {
      for (let read = await reader.read(); !read.done; read = await reader.read()) {
        text += decoder.decode(read.value, { stream: true });
      }
      return text;
    },
  };
}

Deno.test("fifty duplicates at once on two replicas are one call, one bill and one answer", async (t) => {
  await withTwo(async ({ first, second, upstream }) => {
    for (const kind of ["whole", "streamed", "as UI messages"]) {
      await t.step(kind, async () => {
        const before = upstream.requests.length;
        const text = "One two three four five six seven eight";
        upstream.script(() =>
          kind === "whole"
            ? { ...chatCompletion({ text, usage }), before: [{ delayMs: 200 }] }
            : chatStream({ text, usage, delayMs: 40 })
        );
        const more = kind === "whole" ? {} : { stream: true };
        const headers: Record<string, string> = kind === "as UI messages"
          ? { "hub-stream": "ui" }
          : {};
        const answers = await Promise.all(
          Array.from(
            { length: 50 },
            (_, at) =>
              ask(at % 2 === 0 ? first : second, `fifty ${kind}`.replaceAll(" ", "-"), more, {
                headers,
              }),
          ),
        );
        assert.deepEqual(answers.map(({ status }) => status), answers.map(() => 200));
        assert.equal(answers.filter((answer) => !isReplayed(answer)).length, 1);
        const ids = new Set(answers.map(({ headers }) => headers.get("x-request-id")));
        assert.equal(ids.size, 50);
        const texts = new Set(
          (await Promise.all(answers.map((answer) => answer.text()))).map(framesOf),
        );
        assert.equal(texts.size, 1);
        const [only = ""] = texts;
        assert.match(only, kind === "whole" ? /"content":"One two three/ : /eight/);
        if (kind === "streamed") assert.ok(only.endsWith("data: [DONE]\n\n"));
        assert.equal(upstream.requests.length, before + 1);

        // After its end too, on both, with the same bytes.
        for (const hub of [first, second]) {
          const again = await ask(hub, `fifty ${kind}`.replaceAll(" ", "-"), more, { headers });
          assert.ok(isReplayed(again));
          assert.equal(again.headers.get("content-type"), answers[0]?.headers.get("content-type"));
          assert.equal(framesOf(await again.text()), only);
        }
        assert.equal(upstream.requests.length, before + 1);
      });
    }
    const rows = await usageRows(first, 3);
    assert.deepEqual(rows.map((row) => row["outcome"]), ["ok", "ok", "ok"]);
  });
});

Deno.test("what a key stands for", async (t) => {
  await withTwo(async ({ first, second, upstream }) => {
    upstream.script((_, index) =>
      chatCompletion({ text: `Answer ${index}`, headers: { "x-ratelimit-remaining": "7" } })
    );
    const ok = async (answer: Response) => {
      assert.equal(answer.status, 200);
      return await answer.text();
    };
    await t.step("another body is refused, on each replica, and nobody is asked", async () => {
      const own = await ask(first, "k1");
      assert.equal(own.headers.get("x-ratelimit-remaining"), "7");
      assert.equal(own.headers.get("x-loophub-target"), "one/m");
      const text = await ok(own);
      const asked = upstream.requests.length;
      for (const hub of [first, second]) {
        for (
          const options of [{ more: { temperature: 1 } }, { more: { stream: true } }, {
            more: { stream: true },
            headers: { "hub-stream": "ui" },
          }]
        ) {
          const { more, ...rest } = options;
          const answer = await ask(hub, "k1", more, rest);
          assert.equal(answer.status, 422);
          assert.equal(answer.headers.get("x-should-retry"), "false");
          const { error } = await answer.json();
          assert.equal(error.code, "idempotency_mismatch");
        }
        const again = await ask(hub, "k1");
        assert.equal(again.headers.get("x-ratelimit-remaining"), null);
        assert.equal(again.headers.get("x-loophub-target"), "one/m");
        assert.equal(await ok(again), text);
      }
      assert.equal(upstream.requests.length, asked);
    });

    await t.step("the way it is shown belongs to what is asked for", async () => {
      upstream.script(() => chatStream({ text: "Hello" }));
      assert.equal((await ask(first, "k-ui", { stream: true })).status, 200);
      const asked = await ask(second, "k-ui", { stream: true }, {
        headers: { "hub-stream": "ui" },
      });
      assert.equal(asked.status, 422);
      await asked.body?.cancel();
    });

    await t.step("a key that is none is refused", async () => {
      upstream.script((_, index) => chatCompletion({ text: `Answer ${index}` }));
      for (const key of ["", "a b", "x".repeat(256), "\u00e4"]) {
        const answer = await ask(first, key);
        assert.equal(answer.status, 400, key);
        assert.match((await answer.json()).error.message, /Idempotency-Key/);
      }
      assert.equal((await ask(first, "x".repeat(255))).status, 200);
    });

    await t.step("after its day it is free, for any body", async () => {
      const text = await ok(await ask(first, "day"));
      assert.equal(await ok(await ask(second, "day")), text);
      await first.hub.start.db
        .control`update hub.idempotency set expires_at = now() - interval '1 second'
          where idem_key like '% day'`;
      const other = await ok(await ask(second, "day", { temperature: 1 }));
      assert.notEqual(other, text);
      assert.equal(await ok(await ask(first, "day", { temperature: 1 })), other);
    });

    await t.step("requests the hub itself refuses do not use a key up", async () => {
      const answer = await ask(first, "fresh", { model: "nobody/has-this" });
      assert.equal(answer.status, 404);
      await answer.body?.cancel();
      await ok(await ask(first, "fresh"));
    });
  });
});

Deno.test("failures: a refusal is kept, all else frees the key", async (t) => {
  await withTwo(async ({ first, second, upstream }) => {
    await t.step("the provider's 400 is the answer from now on", async () => {
      upstream.script(chatError(400, { message: "No such voice", code: "bad_voice" }));
      const own = await ask(first, "refused");
      assert.equal(own.status, 400);
      const text = await own.text();
      upstream.script(chatCompletion({ text: "Fine" }));
      const asked = upstream.requests.length;
      for (const hub of [first, second]) {
        const again = await ask(hub, "refused");
        assert.deepEqual([again.status, await again.text()], [400, text]);
        assert.ok(isReplayed(again));
        assert.equal(again.headers.get("x-should-retry"), "false");
      }
      assert.equal(upstream.requests.length, asked);
    });

    for (const status of [401, 408, 409, 429, 500, 503]) {
      await t.step(`after ${status} a retry asks again`, async () => {
        upstream.script(chatError(status));
        const failed = await ask(first, `failed-${status}`);
        assert.notEqual(failed.status, 200);
        await failed.body?.cancel();
        upstream.script(chatCompletion({ text: "Fine" }));
        // Later requests must not bother a target that rests for what it said.
        const answer = await ask(second, `failed-${status}`);
        assert.equal(answer.status, 200);
        assert.match(await answer.text(), /Fine/);
      });
    }

    for (const headers of [{}, { "hub-stream": "ui" }]) {
      await t.step(`after a cut stream a retry asks again ${JSON.stringify(headers)}`, async () => {
        const key = `cut-${JSON.stringify(headers).length}`;
        upstream.script(chatStream({ text: "One two three", endAfter: 2, end: "cut" }));
        const cut = await (await ask(first, key, { stream: true }, { headers })).text()
          .catch(() => "cut");
        assert.match(cut, /cut|"type":"error"/);
        upstream.script(chatStream({ text: "One two three" }));
        const answer = await ask(second, key, { stream: true }, { headers });
        assert.match(await answer.text(), /three/);
      });
    }
  });
});

Deno.test("a client that leaves", async (t) => {
  await withTwo(async ({ first, second, upstream }) => {
    const stalled = () => chatStream({ text: "One two three", endAfter: 2, end: "stall" });
    const gone = async (before: number) => {
      await upstream.until(() => upstream.closedByClient.length > before);
    };

    await t.step("stops the provider, and its key is free", async () => {
      for (const stream of [true, false]) {
        let key = 0;
        await tookUnder(250, async () => {
          upstream.script(stream ? stalled : { end: "stall", frames: [] });
          const before = upstream.closedByClient.length;
          const asked = upstream.requests.length;
          const abort = new AbortController();
          const name = `left-${stream}-${++key}`;
          const answer = ask(first, name, { stream }, { signal: abort.signal });
          answer.catch(() => {});
          await upstream.until(() => upstream.requests.length > asked);
          if (stream) await readUntil(await answer, "One");
          const leftMs = performance.now();
          abort.abort();
          await gone(before);
          const tookMs = (upstream.closedByClient.at(-1)?.atMs ?? NaN) - leftMs;
          upstream.script(
            stream ? chatStream({ text: "Again" }) : chatCompletion({ text: "Again" }),
          );
          assert.match(await (await ask(second, name, { stream })).text(), /Again/);
          return tookMs;
        });
      }
    });

    for (const elsewhere of [false, true]) {
      await t.step(
        `leaves the answer to those who wait for it ${elsewhere ? "elsewhere" : "here"}`,
        async () => {
          const gate = Promise.withResolvers<void>();
          const [head = "", ...frames] = chatFrames({ text: "One two three", usage });
          upstream.script({
            headers: { "content-type": "text/event-stream" },
            frames: [head, frames[0] ?? "", { wait: gate.promise }, ...frames.slice(1)],
          });
          const closed = upstream.closedByClient.length;
          const asked = upstream.requests.length;
          const abort = new AbortController();
          const key = `stays-${elsewhere}`;
          const own = await ask(first, key, { stream: true }, { signal: abort.signal });
          await readUntil(own, "One");
          const other = await ask(elsewhere ? second : first, key, { stream: true });
          assert.ok(isReplayed(other));
          const reading = await readUntil(other, "One");
          abort.abort();
          // The hub has noticed when it says so.
          await eventually(async () => {
            const text = await (await first.hub.app.request("/metrics")).text();
            return text.includes("loophub_open_streams " + (elsewhere ? 0 : 1)) ? true : null;
          });
          gate.resolve();
          const text = await reading.rest();
          assert.ok(text.endsWith("data: [DONE]\n\n"), text);
          assert.equal(upstream.closedByClient.length, closed);
          assert.equal(upstream.requests.length, asked + 1);
          assert.equal(
            framesOf(await (await ask(first, key, { stream: true })).text()),
            framesOf(text),
          );
        },
      );
    }
  });
});
