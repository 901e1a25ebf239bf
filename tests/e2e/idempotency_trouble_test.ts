import assert from "node:assert/strict";
import OpenAI from "openai";
import type { Json } from "../../src/core/json.ts";
import { derivePepper } from "../../src/policy/api_key.ts";
import { issueKey } from "../../src/policy/issue_key.ts";
import { MAX_KEPT_BYTES } from "../../src/run/shared_answer.ts";
import { loadMasterKey } from "../../src/store/master_key.ts";
import { startHubProcess } from "../support/hub_process.ts";
import { startTestPostgres, testIds } from "../support/postgres.ts";
import {
  chatCompletion,
  chatError,
  chatFrames,
  chatStream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, startTestHub, withHub, withReplicas } from "../support/test_hub.ts";
import { withTroubleRig } from "../support/trouble_rig.ts";

const PATH = "/v1/chat/completions";
const framesOf = (text: string) => text.replaceAll(/^:.*\n\n/gm, "");
const bodyOf = (stream: boolean): Json => ({
  model: "one/m",
  stream,
  messages: [{ role: "user", content: "Hi" }],
});
const asked = (key: string, stream = false) => ({
  body: bodyOf(stream),
  headers: { "idempotency-key": key },
});

Deno.test("an answer whose replica is killed is asked for again by who waits for it, and no sooner", async () => {
  const upstream = await startScriptedUpstream();
  const postgres = await startTestPostgres({ migrated: false });
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-idem-" });
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    runs: { leaseMs: 5000 },
  };
  try {
    await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
    const first = await startHubProcess(folder, { DATABASE_URL: postgres.url });
    const key = await eventually(() => Promise.resolve(first.key()));
    const dataDir = `${folder}/data`;
    const second = await startTestHub(config, { databaseUrl: postgres.url, dataDir, key });
    let killed = false;
    try {
      const post = (name: string, stream: boolean) =>
        fetch(first.url + PATH, {
          method: "POST",
          headers: {
            authorization: `Bearer ${key}`,
            "content-type": "application/json",
            "idempotency-key": name,
          },
          body: JSON.stringify(bodyOf(stream)),
        });
      upstream.script((_, index) =>
        index === 0
          ? chatStream({ text: "One two three", endAfter: 2, end: "stall" })
          : { end: "stall", frames: [] }
      );
      const streamed = await post("streamed", true);
      const whole = post("whole", false);
      whole.catch(() => {});
      await upstream.until(() => upstream.requests.length === 2);
      const waiting = second.call(PATH, asked("whole"));
      const following = await second.call(PATH, asked("streamed", true));
      const text = following.text().catch((error) => error);
      upstream.script((request) =>
        (request.json as { stream?: boolean }).stream
          ? chatStream({ text: "Again" })
          : chatCompletion({ text: "Again" })
      );
      await first.end("SIGKILL");
      killed = true;
      await streamed.body?.cancel().catch(() => {});
      // What was shown cannot be exchanged: it breaks off, and the next request asks anew.
      assert.ok(await text instanceof Error);
      assert.match(await (await waiting).text(), /Again/);
      const again = await (await second.call(PATH, asked("streamed", true))).text();
      assert.match(again, /Again/);
      assert.equal(upstream.requests.length, 4);
      const replay = await second.call(PATH, asked("streamed", true));
      assert.equal(framesOf(await replay.text()), framesOf(again));
      assert.equal(upstream.requests.length, 4);
    } finally {
      if (!killed) await first.end("SIGKILL");
      await second.close();
    }
  } finally {
    await upstream.stop();
    await postgres.stop();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("while Postgres is away a key is answered 503, and one call is kept when it is back", async () => {
  await withTroubleRig({ deadlineMs: 3000 }, async ({ proxy, hub, upstream }) => {
    upstream.script(() => chatCompletion({ text: "Hello" }));
    const { db } = hub.hub.start;
    const stored = (key: string) =>
      eventually(async () => {
        const rows = await db.read`select 1 from hub.idempotency
          where idem_key like ${`% ${key}`} and state = 'done'`.catch(() => []);
        return rows.length === 1 ? true : null;
      });
    const before = await (await hub.call(PATH, asked("before"))).text();
    await stored("before");
    await proxy.set("refuse");
    proxy.cut();
    const count = upstream.requests.length;
    for (const key of ["before", "new"]) {
      const answer = await hub.call(PATH, asked(key));
      assert.equal(answer.status, 503);
      assert.equal(answer.headers.get("retry-after"), "1");
      assert.equal((await answer.json()).error.code, "database_unavailable");
    }
    assert.equal(upstream.requests.length, count);
    const plain = await hub.call(PATH, { body: bodyOf(false) });
    assert.match(await plain.text(), /Hello/);
    await proxy.set("pass");
    const again = await eventually(async () => {
      const answer = await hub.call(PATH, asked("before"));
      const text = await answer.text();
      return answer.status === 200 ? text : null;
    });
    assert.equal(again, before);

    // It goes away while the answer comes: the client has it all the same, and it is stored when Postgres is back.
    const gate = Promise.withResolvers<void>();
    upstream.script({ ...chatCompletion({ text: "Late" }), before: [{ wait: gate.promise }] });
    const asking = hub.call(PATH, asked("during"));
    await upstream.until(() => upstream.requests.length === count + 2);
    await proxy.set("refuse");
    proxy.cut();
    gate.resolve();
    const text = await (await asking).text();
    assert.match(text, /Late/);
    const attached = await hub.call(PATH, asked("during"));
    assert.equal(await attached.text(), text);
    await proxy.set("pass");
    await stored("during");
    assert.equal(await (await hub.call(PATH, asked("during"))).text(), text);
    assert.equal(upstream.requests.length, count + 2);
  });
});

Deno.test("a hub that ends leaves whole answers behind, and frees the keys of others", async () => {
  const upstream = await startScriptedUpstream();
  const config = { providers: { one: { baseUrl: upstream.url } }, defaultModel: "one/m" };
  try {
    await withHub(config, async (hub) => {
      upstream.script((_, index) =>
        index === 0
          ? chatCompletion({ text: "Kept" })
          : chatStream({ text: "One two three", endAfter: 2, end: "stall" })
      );
      const kept = await (await hub.call(PATH, asked("kept"))).text();
      const cut = (await hub.call(PATH, asked("cut", true))).text().catch(() => "cut");
      await upstream.until(() => upstream.requests.length === 2);
      const next = await hub.restart();
      assert.equal(await cut, "cut");
      upstream.script(chatStream({ text: "Again" }));
      assert.equal(await (await next.call(PATH, asked("kept"))).text(), kept);
      assert.match(await (await next.call(PATH, asked("cut", true))).text(), /Again/);
      assert.equal(upstream.requests.length, 3);
    });
  } finally {
    await upstream.stop();
  }
});

Deno.test("an answer too large to be kept reaches who asked first, and its key says so", async () => {
  const upstream = await startScriptedUpstream();
  const config = { providers: { one: { baseUrl: upstream.url } }, defaultModel: "one/m" };
  try {
    await withReplicas([config, config], async (first, second) => {
      const text = "x".repeat(64 * 1024);
      const deltas = Array.from({ length: 1.5 * MAX_KEPT_BYTES / text.length }, () => text);
      for (const stream of [true, false]) {
        upstream.script(
          stream ? chatStream({ deltas }) : chatCompletion({ text: deltas.join("") }),
        );
        const own = await first.call(PATH, asked(`large-${stream}`, stream));
        const got = await own.text();
        assert.ok(got.length > 1.4 * MAX_KEPT_BYTES);
        if (stream) assert.equal(framesOf(got), chatFrames({ deltas }).join(""));
        const count = upstream.requests.length;
        // Until the key says so, another replica follows what has been kept.
        await eventually(async () => {
          const rows = await first.hub.start.db.read`select 1 from hub.idempotency
            where idem_key like ${`%large-${stream}`} and state = 'too_large'`;
          return rows.length === 1 || null;
        });
        for (const hub of [first, second]) {
          const again = await hub.call(PATH, asked(`large-${stream}`, stream));
          assert.equal(again.status, 409);
          assert.equal(again.headers.get("x-should-retry"), "false");
          assert.equal((await again.json()).error.code, "idempotency_answer_too_large");
        }
        assert.equal(upstream.requests.length, count);
      }
    });
  } finally {
    await upstream.stop();
  }
});

Deno.test("another API key has keys of its own", async () => {
  const upstream = await startScriptedUpstream((_, index) => chatCompletion({ text: `${index}` }));
  const config = { providers: { one: { baseUrl: upstream.url } }, defaultModel: "one/m" };
  const randomBytes = (length: number) => crypto.getRandomValues(new Uint8Array(length));
  try {
    await withHub(config, async (hub) => {
      const master = await loadMasterKey({ given: undefined, dataDir: hub.dataDir, randomBytes });
      const pepper = derivePepper(master.bytes);
      const { token } = await issueKey(
        hub.hub.start.db,
        { name: "other", role: "user" },
        { ids: testIds, randomBytes, pepper },
      );
      const own = await (await hub.call(PATH, asked("same"))).text();
      const { body, headers } = asked("same");
      const other = { body, headers: { ...headers, authorization: `Bearer ${token}` } };
      const others = await (await hub.call(PATH, other)).text();
      assert.notEqual(others, own);
      assert.equal(await (await hub.call(PATH, other)).text(), others);
      assert.equal(await (await hub.call(PATH, asked("same"))).text(), own);
    });
  } finally {
    await upstream.stop();
  }
});

Deno.test("the openai client repeats a request under its key", async () => {
  const upstream = await startScriptedUpstream();
  const config = {
    providers: { one: { baseUrl: upstream.url, maxRetries: 0 } },
    defaultModel: "one/m",
  };
  try {
    await withHub(config, async (hub) => {
      const sent: Headers[] = [];
      const lost: boolean[] = [];
      const client = new OpenAI({
        apiKey: hub.key,
        baseURL: `${hub.url}/v1`,
        maxRetries: 2,
        fetch: async (input, init) => {
          sent.push(new Headers(init?.headers as HeadersInit));
          const answer = await fetch(input as string, init as RequestInit);
          if (lost.shift() !== true) return answer;
          await answer.text();
          throw new TypeError("the connection broke before the answer came");
        },
      });
      const messages = [{ role: "user" as const, content: "Hi" }];
      const headers = { "Idempotency-Key": "order-7" };
      upstream.script([chatCompletion({ text: "Once" }), chatCompletion({ text: "Twice" })]);
      lost.push(true);
      const { data, response } = await client.chat.completions
        .create({ model: "one/m", messages }, { headers }).withResponse();
      assert.equal(data.choices[0]?.message.content, "Once");
      assert.equal(response.headers.get("idempotent-replayed"), "true");
      assert.deepEqual(sent.map((all) => all.get("idempotency-key")), ["order-7", "order-7"]);
      assert.deepEqual(sent.map((all) => all.get("x-stainless-retry-count")), ["0", "1"]);
      assert.equal(upstream.requests.length, 1);

      // Its option of that name sends nothing by itself.
      await client.chat.completions.create({ model: "one/m", messages }, { idempotencyKey: "x" });
      assert.equal(sent.at(-1)?.get("idempotency-key"), null);

      upstream.script([chatError(503), chatStream({ text: "one two" })]);
      const stream = await client.chat.completions.create(
        { model: "one/m", messages, stream: true },
        { headers: { "Idempotency-Key": "order-8" } },
      );
      let text = "";
      for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
      assert.equal(text, "one two");
    });
  } finally {
    await upstream.stop();
  }
});
