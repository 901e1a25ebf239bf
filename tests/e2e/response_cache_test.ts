import assert from "node:assert/strict";
import OpenAI from "openai";
import {
  ask,
  CHAT,
  counted,
  framesOf,
  kept,
  outcomeOf,
  withCacheRig,
} from "../support/cache_rig.ts";
import { chatCompletion, chatFrames, chatStream } from "../support/scripted_upstream.ts";
import { eventually, type TestHub } from "../support/test_hub.ts";

const usage = { promptTokens: 7, completionTokens: 3 };

async function usageRows(hub: TestHub, count: number) {
  const { db } = hub.hub.start;
  const read = () =>
    db.read`select request_id, provider, model, public_model, streamed, outcome, status, prompt_tokens,
      cost_micros::int as cost, attempts, from_cache, budget_windows, bytes_out::int as bytes
      from hub.usage order by started_at, request_id`;
  await eventually(async () => (await read()).length >= count ? true : null);
  const rows = await read();
  assert.equal(rows.length, count);
  return rows;
}

Deno.test("the same request is one call of the provider, on all replicas together", async (t) => {
  await withCacheRig(async ({ first, second, upstream }) => {
    await t.step("whole", async () => {
      upstream.script(
        chatCompletion({ text: "Once", usage, headers: { "x-ratelimit-limit": "9" } }),
      );
      const own = await ask(first, "whole");
      const text = await own.text();
      assert.deepEqual([own.status, outcomeOf(own)], [200, "miss"]);
      assert.equal(own.headers.get("age"), null);
      await kept(first, 1);
      for (const hub of [second, first]) {
        const again = await ask(hub, "whole");
        assert.deepEqual([again.status, outcomeOf(again)], [200, "hit"]);
        assert.match(again.headers.get("age") ?? "", /^\d$/);
        assert.equal(again.headers.get("content-type"), own.headers.get("content-type"));
        assert.equal(again.headers.get("x-loophub-target"), "one/m");
        assert.equal(again.headers.get("x-loophub-attempts"), null);
        assert.equal(again.headers.get("x-ratelimit-limit"), null);
        assert.notEqual(again.headers.get("x-request-id"), own.headers.get("x-request-id"));
        assert.equal(await again.text(), text);
      }
      assert.equal(upstream.requests.length, 1);
      const header = upstream.requests[0]?.headers ?? {};
      assert.ok(!JSON.stringify(header).includes("x-loophub-cache"));
    });

    await t.step("streamed, byte for byte, and never mixed with the other form", async () => {
      upstream.script(chatStream({ text: "One two three", usage }));
      const body = { stream: true };
      const own = await ask(first, "whole", { body });
      assert.equal(outcomeOf(own), "miss");
      const text = framesOf(await own.text());
      assert.equal(text, chatFrames({ text: "One two three" }).join(""), "without hidden usage");
      await kept(first, 2);
      const again = await ask(second, "whole", { body });
      assert.deepEqual([outcomeOf(again), framesOf(await again.text())], ["hit", text]);
      assert.match(again.headers.get("content-type") ?? "", /^text\/event-stream/);
      const whole = await ask(second, "whole");
      assert.match(await whole.text(), /^\{/);
      assert.equal(upstream.requests.length, 2);

      upstream.script(chatStream({ text: "One two three", usage }));
      const asked = { stream: true, stream_options: { include_usage: true } };
      const withUsage = await ask(first, "whole", { body: asked });
      assert.equal(outcomeOf(withUsage), "miss");
      assert.match(await withUsage.text(), /"prompt_tokens":7/);
      assert.equal(upstream.requests.length, 3);
      await kept(first, 3);
    });

    await t.step("as UIMessages, with ids of its own and without a price", async () => {
      upstream.script(chatStream({ text: "One two", usage }));
      const options = { body: { stream: true }, headers: { "hub-stream": "ui" } };
      const own = await ask(first, "ui", options);
      const before = await own.text();
      await kept(first, 4);
      const again = await ask(second, "ui", options);
      const after = await again.text();
      assert.deepEqual([outcomeOf(own), outcomeOf(again)], ["miss", "hit"]);
      const idsOf = (text: string) => /"messageId":"(\w+)"/.exec(text)?.[1];
      assert.notEqual(idsOf(after), idsOf(before));
      assert.match(after, /"costMicros":0/);
      assert.match(after, /"promptTokens":7/);
      const { length } = upstream.requests;
      upstream.script(chatStream({ text: "One two", usage }));
      const plain = await ask(first, "ui", { body: { stream: true } });
      assert.equal(outcomeOf(plain), "miss");
      await plain.text();
      assert.equal(upstream.requests.length, length + 1);
    });
    for (const event of ["hit", "miss", "stored"]) {
      assert.ok(await counted(first, event) > 0, event);
    }
  });
});

Deno.test("only who asks for it is answered from it", async () => {
  await withCacheRig(async ({ first, upstream }) => {
    upstream.script((_, index) => chatCompletion({ text: `${index}` }));
    const texts: string[] = [];
    for (const cache of [null, "off", "0"]) {
      for (const hub of [first, first]) {
        const answer = await ask(hub, "same", { cache });
        assert.equal(outcomeOf(answer), null);
        texts.push(await answer.text());
      }
    }
    assert.equal(new Set(texts).size, 6);
    await (await ask(first, "same")).text();
    await kept(first, 1);
    const plain = await ask(first, "same", { cache: null });
    assert.match(await plain.text(), /"7"/);
    assert.equal(upstream.requests.length, 8);
  });
});

Deno.test("another request never gets the answer", async () => {
  await withCacheRig(async ({ first, upstream }) => {
    upstream.script((request, index) =>
      (request.json as { stream?: boolean }).stream
        ? chatStream({ text: `${index}` })
        : chatCompletion({ text: `${index}` })
    );
    const send = async (body: string, headers: Record<string, string> = {}, path = CHAT) => {
      const answer = await fetch(first.url + path, {
        method: "POST",
        headers: {
          authorization: `Bearer ${first.key}`,
          "content-type": "application/json",
          "x-loophub-cache": "3600",
          ...headers,
        },
        body,
      });
      return { text: await answer.text(), outcome: outcomeOf(answer), status: answer.status };
    };
    const body = `{"model":"one/m","messages":[{"role":"user","content":"Hi"}]}`;
    assert.equal((await send(body)).outcome, "miss");
    await kept(first, 1);
    const others = [
      body.replace("Hi", "hi"),
      body.replace(":", ": "),
      body.replace("}]", `,"name":"x"}]`),
      body.replace("one/m", "one/n"),
      body.replace("{", `{"temperature":0,`),
      body.replace("{", `{"user":"u2",`),
      body.replace("{", `{"prompt_cache_key":"a",`),
      `{"messages":[{"role":"user","content":"Hi"}],"model":"one/m"}`,
    ];
    for (const other of others) assert.equal((await send(other)).outcome, "miss", other);
    const messages = await send(body.replace("{", `{"max_tokens":9,`), {}, "/v1/messages");
    assert.deepEqual([messages.status, messages.outcome], [200, "miss"]);
    await kept(first, others.length + 2);
    const beta = await send(
      body.replace("{", `{"max_tokens":9,`),
      { "anthropic-beta": "x" },
      "/v1/messages",
    );
    assert.deepEqual([beta.status, beta.outcome], [200, "miss"]);
    // What says nothing about the answer changes nothing.
    const same = await send(body, { "x-session-affinity": "other", "x-request-id": "other" });
    assert.equal(same.outcome, "hit");
  });
});

Deno.test("a hit is booked as one, costs nothing, and did not reach a provider", async () => {
  await withCacheRig(async ({ first, second, upstream }) => {
    upstream.script(chatCompletion({ text: "Paid", usage }));
    const own = await ask(first, "money");
    const { length } = await own.text();
    await kept(first, 1);
    const hit = await ask(second, "money");
    await hit.text();
    const rows = await usageRows(first, 2);
    const [paid, free] = [
      rows.find((row) => !row["from_cache"]),
      rows.find((row) => row["from_cache"]),
    ];
    assert.equal(paid?.["request_id"], own.headers.get("x-request-id"));
    assert.equal(paid?.["prompt_tokens"], "7");
    assert.deepEqual(free, {
      request_id: hit.headers.get("x-request-id"),
      provider: "one",
      model: "m",
      public_model: "one/m",
      streamed: false,
      outcome: "ok",
      status: null,
      prompt_tokens: null,
      cost: 0,
      attempts: [],
      from_cache: true,
      budget_windows: null,
      bytes: length,
    });
    const { db } = first.hub.start;
    const [day] = await db
      .read`select requests::int, failed::int, prompt_tokens::int, from_cache::int
      from hub.usage_daily`;
    assert.deepEqual({ ...day }, { requests: 1, failed: 0, prompt_tokens: 7, from_cache: 1 });
    assert.equal(upstream.requests.length, 1);
  });
});

Deno.test("tools and several choices come from it as they came", async () => {
  await withCacheRig(async ({ first, second, upstream }) => {
    const toolCalls = [
      { name: "look_up", arguments: { city: "Bern" } },
      { name: "look_up", arguments: { city: "Chur" } },
    ];
    const tools = [{ type: "function", function: { name: "look_up", parameters: {} } }];
    const cases = [
      { body: { tools }, answer: { toolCalls } },
      { body: { n: 3 }, answer: { text: "Three of them", n: 3 } },
    ];
    let entries = 0;
    for (const { body, answer } of cases) {
      for (const stream of [false, true]) {
        upstream.script(stream ? chatStream(answer) : chatCompletion(answer));
        const own = await ask(first, "tools", { body: { ...body, stream } });
        const text = framesOf(await own.text());
        await kept(first, ++entries);
        const again = await ask(second, "tools", { body: { ...body, stream } });
        assert.deepEqual([outcomeOf(again), framesOf(await again.text())], ["hit", text]);
      }
    }
    assert.equal(upstream.requests.length, entries);

    // A stream that ends before each of its choices does is not the whole answer, whatever follows.
    const frames = chatFrames({ text: "Three", n: 3 }).filter((frame) =>
      !(frame.includes('"finish_reason":"stop"') && frame.includes('"index":2'))
    );
    upstream.script({ headers: { "content-type": "text/event-stream" }, frames });
    const own = await ask(first, "part", { body: { n: 3, stream: true } });
    await own.text();
    upstream.script(chatStream({ text: "Again", n: 3 }));
    assert.equal(outcomeOf(await ask(second, "part", { body: { n: 3, stream: true } })), "miss");
  });
});

Deno.test("many streams at once are asked for each, and one answer of them stays", async () => {
  await withCacheRig(async ({ first, second, upstream }) => {
    const body = { stream: true };
    const textOf = async (answer: Response) => framesOf(await answer.text());
    const gate = Promise.withResolvers<void>();
    upstream.script((_, index) => ({
      ...chatStream({ text: `${index}` }),
      before: [{ wait: gate.promise }],
    }));
    const asked = Array.from(
      { length: 20 },
      (_, at) => ask(at % 2 === 0 ? first : second, "once", { body }),
    );
    await upstream.until(() => upstream.requests.length === 20);
    gate.resolve();
    const answers = await Promise.all(asked);
    assert.deepEqual(answers.map(outcomeOf), answers.map(() => "miss"));
    const texts = await Promise.all(answers.map(textOf));
    await eventually(async () =>
      await counted(first, "stored") + await counted(second, "stored") === 20 ? true : null
    );
    await kept(first, 1);
    const after = await Promise.all([first, second].map(async (hub) => {
      const answer = await ask(hub, "once", { body });
      return [outcomeOf(answer), await textOf(answer)];
    }));
    assert.deepEqual(after[0], after[1]);
    assert.equal(after[0]?.[0], "hit");
    assert.ok(texts.includes(after[0]?.[1] ?? ""));
    assert.equal(upstream.requests.length, 20);
  });
});

Deno.test("with an Idempotency-Key the first request may be answered from it, and the key keeps that", async () => {
  await withCacheRig(async ({ first, second, upstream }) => {
    upstream.script(chatCompletion({ text: "Once" }));
    const text = await (await ask(first, "both")).text();
    await kept(first, 1);
    const headers = { "idempotency-key": "k" };
    const own = await ask(second, "both", { headers });
    assert.deepEqual([outcomeOf(own), await own.text()], ["hit", text]);
    const { db } = first.hub.start;
    await eventually(async () =>
      (await db.read`select 1 from hub.idempotency where state = 'done'`).length === 1 ? true : null
    );
    await db.control`delete from hub.cached_answers`;
    const again = await ask(first, "both", { headers });
    assert.equal(again.headers.get("idempotent-replayed"), "true");
    assert.equal(await again.text(), text);
    assert.equal(upstream.requests.length, 1);
    await usageRows(first, 2);
  });
});

Deno.test("the openai client asks for it by a header", async () => {
  await withCacheRig(async ({ first, upstream }) => {
    const client = new OpenAI({
      apiKey: first.key,
      baseURL: `${first.url}/v1`,
      defaultHeaders: { "x-loophub-cache": "600" },
    });
    upstream.script(chatStream({ text: "one two" }));
    const messages = [{ role: "user" as const, content: "Hi" }];
    const read = async () => {
      const { data, response } = await client.chat.completions
        .create({ model: "one/m", messages, stream: true }).withResponse();
      let text = "";
      for await (const chunk of data) text += chunk.choices[0]?.delta.content ?? "";
      return [outcomeOf(response as unknown as Response), text];
    };
    assert.deepEqual(await read(), ["miss", "one two"]);
    await kept(first, 1);
    assert.deepEqual(await read(), ["hit", "one two"]);
    assert.equal(upstream.requests.length, 1);
  });
});
