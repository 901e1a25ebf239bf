import assert from "node:assert/strict";
import { ask, counted, framesOf, kept, outcomeOf, withCacheRig } from "../support/cache_rig.ts";
import { startScriptedUpstream } from "../support/scripted_upstream.ts";
import {
  chatCompletion,
  chatError,
  chatFrames,
  chatStream,
  type Reply,
} from "../support/scripted_upstream.ts";
import { systemClock } from "../support/system_clock.ts";
import { eventually, startTestHub, withHub } from "../support/test_hub.ts";
import { withTroubleRig } from "../support/trouble_rig.ts";

const SSE = { "content-type": "text/event-stream" };
const text = "one two three";
const frames = chatFrames({ text });

/** Answers that are none, or not whole. */
const BROKEN: Record<string, { stream: boolean; reply: Reply }> = {
  refused: { stream: false, reply: chatError(400) },
  failed: { stream: false, reply: chatError(500) },
  limited: { stream: true, reply: chatError(429) },
  "no JSON": {
    stream: false,
    reply: { headers: { "content-type": "application/json" }, body: "{" },
  },
  "an error in its place": {
    stream: false,
    reply: { headers: { "content-type": "application/json" }, body: { error: { message: "no" } } },
  },
  "cut before content": { stream: true, reply: chatStream({ text, endAfter: 1, end: "cut" }) },
  "cut behind content": { stream: true, reply: chatStream({ text, endAfter: 3, end: "cut" }) },
  "ended behind content": { stream: true, reply: chatStream({ text, endAfter: 3, end: "clean" }) },
  reset: { stream: true, reply: chatStream({ text, endAfter: 3, end: "reset" }) },
  "an error in the stream": { stream: true, reply: chatStream({ text, errorFrameAfter: 3 }) },
  "a malformed frame": {
    stream: true,
    reply: {
      headers: SSE,
      frames: [...frames.slice(0, 2), 'data: {"choices":[{"index":0,"del\n\n', ...frames.slice(2)],
    },
  },
  "an end without a reason": {
    stream: true,
    reply: { headers: SSE, frames: [...frames.slice(0, 3), "data: [DONE]\n\n"] },
  },
};

Deno.test("what is no whole answer is not kept", async (t) => {
  await withCacheRig(async ({ first, second, upstream }) => {
    for (const [name, { stream, reply }] of Object.entries(BROKEN)) {
      await t.step(name, async () => {
        upstream.script(reply);
        const body = { stream };
        const own = await ask(first, name, { body });
        await own.text().catch(() => {});
        upstream.script(stream ? chatStream({ text }) : chatCompletion({ text }));
        const again = await ask(second, name, { body });
        assert.deepEqual([again.status, outcomeOf(again)], [200, "miss"]);
        await again.text();
        await eventually(async () => await counted(second, "stored") > 0 ? true : null);
        await kept(first, 1);
        await first.hub.start.db.control`delete from hub.cached_answers`;
        assert.equal(await counted(first, "stored"), 0);
      });
    }
    assert.equal(await counted(first, "unsound"), 1);

    await t.step("a client that leaves", async () => {
      const gate = Promise.withResolvers<void>();
      upstream.script({
        headers: SSE,
        frames: [...frames.slice(0, 3), { wait: gate.promise }, ...frames.slice(3)],
      });
      const left = new AbortController();
      const own = await ask(first, "left", { body: { stream: true }, signal: left.signal });
      const reader = own.body?.getReader();
      await reader?.read();
      left.abort();
      await upstream.until(() => upstream.closedByClient.length > 0);
      gate.resolve();
      upstream.script(chatStream({ text }));
      const again = await ask(second, "left", { body: { stream: true } });
      assert.equal(outcomeOf(again), "miss");
      await again.text();
      await kept(first, 1);
    });
  });
});

Deno.test("what is too large is sent, counted, and not kept", async () => {
  await withCacheRig(async ({ first, upstream }) => {
    for (const stream of [false, true]) {
      const long = "x ".repeat(2000);
      upstream.script(stream ? chatStream({ text: long }) : chatCompletion({ text: long }));
      for (let time = 0; time < 2; time++) {
        const answer = await ask(first, "long", { body: { stream } });
        assert.equal(outcomeOf(answer), "miss");
        assert.ok((await answer.text()).length > 4000);
      }
    }
    assert.equal(await counted(first, "too_large"), 4);
    await kept(first, 0);
  }, { maxEntryBytes: 4000 });
});

Deno.test("the oldest make room", async () => {
  await withCacheRig(async ({ first, second, upstream }) => {
    const { db } = first.hub.start;
    const size = async () =>
      (await db.read`select coalesce(sum(size), 0)::int as size from hub.cached_answers`)[0]
        ?.["size"];
    upstream.script(() => chatCompletion({ text: "x".repeat(20_000) }));
    for (let at = 0; at < 12; at++) {
      await (await ask(at % 2 === 0 ? first : second, `${at}`)).text();
      await eventually(async () =>
        await counted(first, "stored") + await counted(second, "stored") === at + 1 ? true : null
      );
      await eventually(async () => await size() <= 100_000 ? true : null);
    }
    assert.equal(outcomeOf(await ask(first, "11")), "hit");
    assert.equal(outcomeOf(await ask(first, "0")), "miss");
  }, { maxTotalBytes: 100_000 });
});

Deno.test("an answer is as old as who asks allows, and no older than it was kept for", async () => {
  await withCacheRig(async ({ first, second, upstream }) => {
    upstream.script((_, index) => chatCompletion({ text: `${index}` }));
    const { db } = first.hub.start;
    const age = (seconds: number) =>
      db.control`update hub.cached_answers set
        created_at = created_at - ${seconds}::int * interval '1 second',
        expires_at = expires_at - ${seconds}::int * interval '1 second'`;
    const asked = async (cache: string) => {
      const answer = await ask(second, "old", { cache });
      await answer.text();
      return outcomeOf(answer);
    };
    assert.equal(await asked("600"), "miss");
    await kept(first, 1);
    await age(120);
    const old = await ask(first, "old", { cache: "600" });
    assert.match(old.headers.get("age") ?? "", /^12\d$/);
    await old.text();
    assert.equal(await asked("60"), "miss");
    await eventually(async () => await counted(second, "stored") === 2 ? true : null);
    assert.equal(await asked("600"), "hit");
    await age(61);
    // Kept for a minute: nobody finds it afterwards.
    assert.equal(await asked("600"), "miss");
    assert.equal(upstream.requests.length, 3);
  });
});

Deno.test("clocks of replicas that are hours apart change nothing", async () => {
  const upstream = await startScriptedUpstream(() => chatCompletion({ text }));
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    cache: { lookupTimeoutMs: 5000 },
  };
  try {
    await withHub(config, async ({ databaseUrl, dataDir, key, ...first }) => {
      for (const hours of [-5, 5]) {
        const clock = { ...systemClock, now: () => systemClock.now() + hours * 3_600_000 };
        const other = await startTestHub(config, { databaseUrl, dataDir, key, clock });
        try {
          const name = `${hours}`;
          await (await ask(other, name, { cache: "60" })).text();
          await eventually(async () => await counted(other, "stored") === 1 ? true : null);
          const hub = { ...first, databaseUrl, key };
          const again = await ask(hub, name, { cache: "60" });
          assert.equal(outcomeOf(again), "hit");
          assert.match(again.headers.get("age") ?? "", /^\d$/);
          await again.text();
          await (await ask(hub, `${name}, back`, { cache: "60" })).text();
          await eventually(async () => await counted(hub, "stored") > 0 ? true : null);
          await eventually(async () => {
            const back = await ask(other, `${name}, back`, { cache: "60" });
            await back.text();
            return outcomeOf(back) === "hit" ? true : null;
          });
        } finally {
          await other.close();
        }
      }
    });
  } finally {
    await upstream.stop();
  }
});

Deno.test("a header that is none is refused, and nothing is asked or kept", async () => {
  await withCacheRig(async ({ first, upstream }) => {
    const bad = [
      "-1",
      "1.5",
      "1e3",
      "abc",
      "OFF",
      "on",
      "2592001",
      "600, 700",
      "999999999",
      "0x10",
      "6 0",
    ];
    for (const cache of bad) {
      const answer = await ask(first, "bad", { cache });
      assert.equal(answer.status, 400, cache);
      const { error } = await answer.json();
      assert.deepEqual([error.code, error.param], ["invalid_request", "x-loophub-cache"]);
    }
    const messages = await ask(first, "bad", {
      cache: "x",
      path: "/v1/messages",
      body: { max_tokens: 9 },
    });
    assert.equal(messages.status, 400);
    assert.equal((await messages.json()).type, "error");
    const connection = await Deno.connect({
      hostname: "127.0.0.1",
      port: Number(new URL(first.url).port),
    });
    const body = JSON.stringify({ model: "one/m", messages: [] });
    await connection.write(new TextEncoder().encode(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: ${new URL(first.url).host}\r\n` +
        `authorization: Bearer ${first.key}\r\ncontent-type: application/json\r\n` +
        `x-loophub-cache: 60\r\nx-loophub-cache: 600\r\ncontent-length: ${body.length}\r\n` +
        `connection: close\r\n\r\n${body}`,
    ));
    const raw = await new Response(connection.readable).text();
    assert.match(raw, /^HTTP\/1\.1 400 [\s\S]*came more than once/);
    assert.equal(upstream.requests.length, 0);
    await kept(first, 0);
  });
});

Deno.test("with cache.maxSeconds 0 there is none, and a request that asks is told", async () => {
  await withCacheRig(async ({ first, upstream }) => {
    upstream.script(() => chatCompletion({ text }));
    for (let time = 0; time < 2; time++) {
      const answer = await ask(first, "none");
      assert.deepEqual([answer.status, outcomeOf(answer)], [200, "bypass"]);
      await answer.text();
    }
    assert.equal(upstream.requests.length, 2);
    assert.equal(await counted(first, "bypass"), 2);
    await kept(first, 0);
  }, { maxSeconds: 0 });
});

Deno.test("while Postgres is away or frozen every look is a miss, and soon", async () => {
  await withTroubleRig({ deadlineMs: 3000 }, async ({ proxy, hub, upstream }) => {
    upstream.script(() => chatCompletion({ text }));
    await (await ask(hub, "kept")).text();
    await eventually(async () => await counted(hub, "stored") === 1 ? true : null);
    const hits = () =>
      eventually(async () => {
        const answer = await ask(hub, "kept");
        await answer.text();
        return outcomeOf(answer) === "hit" ? true : null;
      });
    await hits();
    for (const mode of ["refuse", "stall"] as const) {
      await proxy.set(mode);
      if (mode === "refuse") proxy.cut();
      const startedMs = performance.now();
      for (let time = 0; time < 20; time++) {
        const answer = await ask(hub, "kept");
        assert.deepEqual([answer.status, outcomeOf(answer)], [200, "miss"]);
        assert.match(await answer.text(), /one two three/);
      }
      const tookMs = performance.now() - startedMs;
      // Each statement would wait for three seconds.
      assert.ok(tookMs < 10_000, `${mode}: ${tookMs}`);
      assert.ok(await counted(hub, "unavailable") >= 20);
      await proxy.set("pass");
      await hits();
    }
  });
});

Deno.test("a hub that ends writes what waits", async () => {
  const upstream = await startScriptedUpstream(() => chatStream({ text }));
  try {
    const config = {
      providers: { one: { baseUrl: upstream.url } },
      defaultModel: "one/m",
      cache: { lookupTimeoutMs: 5000 },
    };
    await withHub(config, async (hub) => {
      const body = { stream: true };
      const own = framesOf(await (await ask(hub, "last", { body })).text());
      const next = await hub.restart();
      const again = await ask(next, "last", { body });
      assert.deepEqual([outcomeOf(again), framesOf(await again.text())], ["hit", own]);
      assert.equal(upstream.requests.length, 1);
    });
  } finally {
    await upstream.stop();
  }
});
