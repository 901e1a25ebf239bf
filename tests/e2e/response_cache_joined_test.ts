import assert from "node:assert/strict";
import type { Clock } from "../../src/core/clock.ts";
import type { Json } from "../../src/core/json.ts";
import { ask, type AskOptions, counted, kept, outcomeOf } from "../support/cache_rig.ts";
import { startTestPostgres } from "../support/postgres.ts";
import {
  chatCompletion,
  chatError,
  chatStream,
  type Reply,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { issueSecondKey } from "../support/second_key.ts";
import { systemClock } from "../support/system_clock.ts";
import { eventually, startTestHub, type TestHub } from "../support/test_hub.ts";

/** No other timer of the hub is so long. */
const JOIN_MS = 654_321;
const usage = { promptTokens: 7, completionTokens: 3 };

interface Rig {
  hub: TestHub & { dataDir: string };
  upstream: ScriptedUpstream;
  /** Those that wait for another's answer. */
  joined(): number;
  /** Asks first, and then so many times more that all of them wait for the first. */
  join(question: string, followers: number, options?: AskOptions): Promise<Promise<Response>[]>;
  /** Holds back all answers from now on; gives what lets them go. */
  hold(reply: Reply | ((index: number) => Reply)): () => void;
  /** Lets those who wait run out of patience. */
  tire(): void;
}

async function withRig(
  use: (rig: Rig) => Promise<void>,
  settings: Record<string, Json> = {},
): Promise<void> {
  const waiting = new Map<unknown, () => void>();
  const clock: Clock = {
    ...systemClock,
    setTimer(callback, delayMs) {
      const timer = systemClock.setTimer(callback, delayMs);
      if (delayMs === JOIN_MS) waiting.set(timer, callback);
      return timer;
    },
    clearTimer(timer) {
      waiting.delete(timer);
      systemClock.clearTimer(timer);
    },
  };
  const server = await startTestPostgres({ migrated: false });
  const dataDir = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-hub-" });
  const upstream = await startScriptedUpstream();
  const config = {
    providers: { one: { baseUrl: upstream.url, maxRetries: 0 } },
    defaultModel: "one/m",
    cache: { lookupTimeoutMs: 5000, joinTimeoutMs: JOIN_MS, ...settings },
  };
  const hub = await startTestHub(config, { databaseUrl: server.url, dataDir, clock });
  try {
    await use({
      hub: { ...hub, dataDir },
      upstream,
      joined: () => waiting.size,
      async join(question, followers, options) {
        const before = upstream.requests.length;
        const answers = [ask(hub, question, options)];
        await upstream.until(() => upstream.requests.length === before + 1);
        for (let at = 0; at < followers; at++) answers.push(ask(hub, question, options));
        await eventually(() => waiting.size === followers ? true : null);
        return answers;
      },
      hold(reply) {
        const gate = Promise.withResolvers<void>();
        upstream.script(async (_, index) => {
          await gate.promise;
          return typeof reply === "function" ? reply(index) : reply;
        });
        return gate.resolve;
      },
      tire: () => [...waiting.values()].forEach((callback) => callback()),
    });
  } finally {
    await hub.close();
    await upstream.stop();
    await server.stop();
    await Deno.remove(dataDir, { recursive: true });
  }
}

async function sort(
  answers: Promise<Response>[],
): Promise<{ outcomes: string[]; texts: string[] }> {
  const all = await Promise.all(answers);
  const texts = await Promise.all(all.map((answer) => answer.text()));
  return { outcomes: all.map((answer) => `${answer.status} ${outcomeOf(answer)}`), texts };
}

async function usageRows(hub: TestHub, count: number) {
  const read = () =>
    hub.hub.start.db.read<{ cached: boolean; outcome: string; tokens: string | null }[]>`
      select from_cache as cached, outcome, prompt_tokens as tokens from hub.usage
      order by from_cache, started_at`;
  return await eventually(async () => {
    const rows = await read();
    return rows.length >= count ? rows.map((row) => ({ ...row })) : null;
  });
}

Deno.test("requests that ask the same at the same time are one call of the provider", async () => {
  await withRig(async ({ hub, upstream, join, joined, hold }) => {
    const release = hold((index) =>
      chatCompletion({ text: `Once ${index}`, usage, headers: { "x-ratelimit-limit": "9" } })
    );
    const answers = await join("same", 8);
    const token = await issueSecondKey(hub);
    answers.push(ask(hub, "same", { headers: { authorization: `Bearer ${token}` } }));
    await eventually(() => joined() === 9 ? true : null);
    // Others are not joined: another question, another age, another form, and who does not ask for the cache.
    const others = [
      ask(hub, "other"),
      ask(hub, "same", { cache: "60" }),
      ask(hub, "same", { cache: null }),
    ];
    await upstream.until(() => upstream.requests.length === 4);
    assert.equal(joined(), 9);
    release();
    const { outcomes, texts } = await sort(answers);
    assert.deepEqual(outcomes, ["200 miss", ...Array.from({ length: 9 }, () => "200 hit")]);
    assert.equal(new Set(texts).size, 1);
    assert.match(texts[0] ?? "", /Once 0/);
    const [, hit] = await Promise.all(answers);
    assert.equal(hit?.headers.get("age"), "0");
    assert.equal(hit?.headers.get("x-loophub-target"), "one/m");
    assert.equal(hit?.headers.get("x-ratelimit-limit"), null);
    assert.equal(new Set((await sort(others)).texts).size, 3);
    assert.equal(joined(), 0);

    const rows = await usageRows(hub, 13);
    const paid = { cached: false, outcome: "ok", tokens: "7" };
    const free = { cached: true, outcome: "ok", tokens: null };
    assert.deepEqual(rows, [paid, paid, paid, paid, ...Array.from({ length: 9 }, () => free)]);
    assert.deepEqual([await counted(hub, "hit"), await counted(hub, "miss")], [9, 3]);
    await kept(hub, 2);
    assert.equal(outcomeOf(await ask(hub, "same")), "hit");
    assert.equal(upstream.requests.length, 4);
  });
});

Deno.test("whoever leaves takes the call from nobody else; when all have left it is stopped", async () => {
  await withRig(async ({ hub, upstream, join, joined, hold }) => {
    const release = hold(chatCompletion({ text: "Once", usage }));
    const left = new AbortController();
    const first = assert.rejects(ask(hub, "left", { signal: left.signal }));
    await upstream.until(() => upstream.requests.length === 1);
    const gone = new AbortController();
    const second = assert.rejects(ask(hub, "left", { signal: gone.signal }));
    const others = [ask(hub, "left"), ask(hub, "left")];
    await eventually(() => joined() === 3 ? true : null);
    left.abort();
    gone.abort();
    await Promise.all([first, second]);
    await eventually(() => joined() === 2 ? true : null);
    // One who comes later still finds it.
    others.push(ask(hub, "left"));
    await eventually(() => joined() === 3 ? true : null);
    assert.deepEqual(upstream.closedByClient, []);
    release();
    assert.deepEqual((await sort(others)).outcomes, ["200 hit", "200 hit", "200 hit"]);
    assert.equal(upstream.requests.length, 1);
    assert.deepEqual((await usageRows(hub, 4)).map(({ cached, outcome }) => [cached, outcome]), [
      [false, "ok"],
      [true, "ok"],
      [true, "ok"],
      [true, "ok"],
    ]);

    const held = hold(chatCompletion({ text: "Once" }));
    const leaving = new AbortController();
    const all = (await join("all", 2, { signal: leaving.signal })).map((answer) =>
      assert.rejects(answer)
    );
    leaving.abort();
    await Promise.all(all);
    await upstream.until(() => upstream.closedByClient.length === 1);
    held();
    upstream.script(chatCompletion({ text: "Anew" }));
    assert.equal(outcomeOf(await ask(hub, "all")), "miss");
    const rows = await usageRows(hub, 6);
    assert.deepEqual(
      rows.filter(({ cached }) => !cached).map(({ outcome }) => outcome).toSorted(),
      ["aborted", "ok", "ok"],
    );
  });
});

Deno.test("who waited for an answer that failed, was too large or took too long asks for one", async (t) => {
  await withRig(async ({ upstream, join, joined, hold, tire }) => {
    await t.step("failed", async () => {
      const release = hold((index) =>
        index === 0 ? chatError(500) : chatCompletion({ text: "Hi" })
      );
      const answers = await join("failed", 3);
      release();
      const { outcomes } = await sort(answers);
      assert.deepEqual(outcomes.slice(1), ["200 miss", "200 miss", "200 miss"]);
      assert.match(outcomes[0] ?? "", /^50\d null$/);
      assert.equal(upstream.requests.length, 4);
    });

    await t.step("too large", async () => {
      const before = upstream.requests.length;
      const release = hold((index) => chatCompletion({ text: `${index}`.repeat(4000) }));
      const answers = await join("large", 2);
      release();
      const { outcomes, texts } = await sort(answers);
      assert.deepEqual(outcomes, ["200 miss", "200 miss", "200 miss"]);
      assert.equal(new Set(texts).size, 3);
      assert.equal(upstream.requests.length, before + 3);
    });

    await t.step("too slow", async () => {
      const before = upstream.requests.length;
      const release = hold((index) => chatCompletion({ text: `${index}` }));
      const answers = await join("slow", 2);
      tire();
      await upstream.until(() => upstream.requests.length === before + 3);
      assert.equal(joined(), 0);
      release();
      assert.deepEqual((await sort(answers)).outcomes, ["200 miss", "200 miss", "200 miss"]);
    });
  }, { maxEntryBytes: 4000 });
});

Deno.test("streams ask each, and so does everybody where nobody is to wait", async () => {
  await withRig(async ({ hub, upstream, joined, hold }) => {
    const release = hold(chatStream({ text: "One two" }));
    const body = { stream: true };
    const streams = [ask(hub, "s", { body }), ask(hub, "s", { body })];
    await upstream.until(() => upstream.requests.length === 2);
    assert.equal(joined(), 0);
    release();
    assert.deepEqual((await sort(streams)).outcomes, ["200 miss", "200 miss"]);
  });
  await withRig(async ({ hub, upstream, hold }) => {
    const release = hold(chatCompletion({ text: "Hi" }));
    const answers = [ask(hub, "w"), ask(hub, "w")];
    await upstream.until(() => upstream.requests.length === 2);
    release();
    assert.deepEqual((await sort(answers)).outcomes, ["200 miss", "200 miss"]);
  }, { joinTimeoutMs: 0 });
});
