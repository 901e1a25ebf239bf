import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import type { Json, JsonObject } from "../../src/core/json.ts";
import {
  chatCompletion,
  chatError,
  chatStream,
  type Reply,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import {
  eventually,
  type TestConfig,
  type TestHub,
  tookUnder,
  withHub,
  withReplicas,
} from "../support/test_hub.ts";

const messages = [{ role: "user", content: "Hi" }];
const NAMES = ["a", "b", "c"] as const;
type Name = typeof NAMES[number];

interface Rig {
  hub: TestHub;
  ups: Record<Name, ScriptedUpstream>;
  /** Asks, reads the answer, and gives who was asked for it. */
  ask(model: string, more?: JsonObject, headers?: Record<string, string>): Promise<Asked>;
}

interface Asked {
  asked: string;
  status: number;
  text: string;
  attempts: string;
}

const says = (text: string) => ({ json }: { json: JsonObject }): Reply =>
  json["stream"] === true ? chatStream({ text }) : chatCompletion({ text });

/** Runs with upstreams `a`, `b` and `c`, each a provider of its name that answers with it. */
async function withUpstreams<T>(
  use: (ups: Record<Name, ScriptedUpstream>, config: TestConfig) => Promise<T>,
): Promise<void> {
  const [a, b, c] = await Promise.all(NAMES.map((name) => startScriptedUpstream(says(name))));
  assert.ok(a && b && c);
  const ups = { a, b, c };
  const providers: Record<string, Json> = {};
  for (const name of NAMES) {
    providers[name] = { baseUrl: ups[name].url, apiKey: `sk-${name}`, maxRetries: 0 };
  }
  try {
    await use(ups, { providers, defaultModel: "a/m" });
  } finally {
    await Promise.all(NAMES.map((name) => ups[name].stop()));
  }
}

const askWith = (hub: TestHub, ups: Record<Name, ScriptedUpstream>): Rig["ask"] =>
async (
  model,
  more = {},
  headers = {},
) => {
  const before = NAMES.map((name) => ups[name].requests.length);
  const answer = await hub.call("/v1/chat/completions", {
    body: { model, messages, ...more },
    headers,
  });
  const text = await answer.text();
  const asked = NAMES.flatMap((name, at) => {
    const requests = ups[name].requests.slice(before[at]);
    return requests.map(({ atMs, json }) => ({ atMs, name: `${name}/${json.model}` }));
  });
  return {
    asked: asked.toSorted((one, two) => one.atMs - two.atMs).map(({ name }) => name).join(" "),
    status: answer.status,
    text,
    attempts: answer.headers.get("x-loophub-attempts") ?? "",
  };
};

async function withRig(
  more: (config: TestConfig) => TestConfig,
  use: (rig: Rig) => Promise<void>,
): Promise<void> {
  await withUpstreams(async (ups, config) => {
    await withHub({ ...config, ...more(config) }, async (hub) => {
      await use({ hub, ups, ask: askWith(hub, ups) });
    });
  });
}

const rowsOf = (hub: TestHub, model: string, count: number) =>
  eventually(async () => {
    const rows = await hub.hub.start.db.read<
      { provider: string; outcome: string; error_code: string | null; attempts: Json[] }[]
    >`
      select provider, outcome, error_code, attempts from hub.usage
      where public_model = ${model} order by started_at, provider`;
    return rows.length >= count ? rows : null;
  });

Deno.test("failover: first the targets of the model, then those of its fallbacks", async (t) => {
  const models = {
    big: { targets: ["a/big", "b/big"], fallbacks: ["alias"] },
    alias: "small",
    small: { targets: ["c/small", "a/small"] },
  };
  const agents = { clerk: { models: ["big", "small"], tools: [] } };
  await withRig(() => ({ models, agents }), async ({ hub, ups, ask }) => {
    await t.step("in order, the identical request, the trace in the header", async () => {
      const good = await ask("big");
      assert.equal(good.asked, "a/big");
      assert.match(good.attempts, /^a\/big;ok;200;\d+$/);
      ups.a.script((request) => request.json.model === "big" ? chatError(500) : says("a")(request));
      ups.b.script(chatError(503));
      ups.c.script(chatError(401));
      const helped = await ask("big", { x_field: [1.50] });
      assert.equal(helped.asked, "a/big b/big c/small a/small");
      assert.match(
        helped.attempts,
        /^a\/big;upstream_error;500;\d+, b\/big;upstream_error;503;\d+, c\/small;upstream_unauthorized;401;\d+, a\/small;ok;200;\d+$/,
      );
      const bodies = [ups.a.requests.at(-2), ups.b.requests.at(-1), ups.c.requests.at(-1)]
        .map((request) => request?.text.replace(/"(big|small)"/, '""'));
      assert.equal(new Set(bodies).size, 1);
      const rows = await rowsOf(hub, "big", 5);
      // Two of one millisecond have no order.
      assert.deepEqual(rows.map(({ attempts }) => attempts.length).toSorted(), [1, 1, 2, 3, 4]);
    });
    await t.step("a stream and an error have the header too", async () => {
      const streamed = await ask("big", { stream: true });
      assert.match(streamed.attempts, /, a\/small;ok;200;\d+$/);
      assert.match(streamed.text, /\[DONE\]/);
      ups.a.script(chatError(500));
      const failed = await ask("big");
      assert.equal(failed.status, 500);
      assert.equal(failed.attempts.split(", ").length, 4);
      assert.match(failed.attempts, /^[!-~ ]+$/);
      const alone = await ask("c/x");
      assert.match(alone.attempts, /^c\/x;upstream_unauthorized;401;\d+$/);
    });
    await t.step("an agent's models follow each other in the same way", async () => {
      ups.b.script(chatError(500));
      ups.c.script(chatError(500));
      ups.a.script((request) => request.json.model === "big" ? chatError(500) : says("a")(request));
      const before = NAMES.map((name) => ups[name].requests.length);
      const session = await (await hub.call("/v1/sessions", { body: { agent: "clerk" } })).json();
      const said = await hub.call(`/v1/sessions/${session.id}/messages`, { body: { text: "Hi" } });
      assert.match(await said.text(), /"provider":"a"/);
      const models = NAMES.map((name, at) =>
        ups[name].requests.slice(before[at]).map(({ json }) => json.model)
      );
      assert.deepEqual(models, [["big", "small"], ["big"], ["small"]]);
    });
  });
});

Deno.test("a dead key of a pool is passed over for all that come after", async () => {
  const withPool = ({ providers }: TestConfig) => {
    const { a, b, c } = providers as Record<Name, JsonObject>;
    const { apiKey: _, ...rest } = a;
    return { providers: { a: { ...rest, apiKeys: ["sk-a1", "sk-a2", "sk-a3"] }, b, c } };
  };
  await withRig(withPool, async ({ hub, ups, ask }) => {
    ups.a.script((request) =>
      request.header("authorization") === "Bearer sk-a2" ? chatError(401) : says("a")(request)
    );
    const trails: string[] = [];
    for (let turn = 0; turn < 12; turn++) {
      const { status, attempts } = await ask("a/m");
      assert.equal(status, 200);
      trails.push(attempts);
    }
    const keys = ups.a.requests.map((request) => request.header("authorization")?.slice(-1));
    assert.equal(keys.filter((key) => key === "2").length, 1);
    assert.ok(keys.filter((key) => key === "1").length >= 4);
    assert.ok(keys.filter((key) => key === "3").length >= 4);
    const helped = trails.filter((trail) => trail.includes(","));
    assert.equal(helped.length, 1);
    assert.match(helped[0] ?? "", /^a\/m#2;upstream_unauthorized;401;\d+, a\/m#[13];ok;200;\d+$/);
    const rows = await rowsOf(hub, "a/m", 13);
    assert.equal(rows.filter(({ error_code }) => error_code === "upstream_unauthorized").length, 1);
    // One session keeps its key.
    const headers = { "x-session-id": "ses-1" };
    for (let turn = 0; turn < 4; turn++) await ask("a/m", {}, headers);
    const kept = ups.a.requests.slice(-4).map((request) => request.header("authorization"));
    assert.equal(new Set(kept).size, 1);
  });
});

Deno.test("what belongs together stays in one place, at every replica, while that is healthy", async () => {
  await withUpstreams(async (ups, config) => {
    const targets = ["a/m", "b/m", "c/m"];
    const models = {
      spread: { targets, strategy: "weights" },
      free: { targets, strategy: "weights", affinity: false },
    };
    const both = { ...config, models };
    await withReplicas([both, both], async (first, second) => {
      const [one, two] = [askWith(first, ups), askWith(second, ups)];
      const places = new Set<string>();
      for (let at = 0; at < 12; at++) {
        const id = `session-${at}`;
        const { asked } = await one("spread", {}, { "x-session-id": id });
        places.add(asked);
        const others = [
          await two("spread", {}, { "x-session-id": id }),
          await one("spread", { prompt_cache_key: id }),
          await two("spread", { prompt_cache_key: "other" }, { "x-session-affinity": id }),
        ];
        assert.deepEqual(others.map((other) => other.asked), [asked, asked, asked]);
      }
      assert.equal(places.size, 3);
      const moved = new Set<string>();
      for (let at = 0; at < 30 && moved.size < 2; at++) {
        moved.add((await one("free", {}, { "x-session-id": "same" })).asked);
      }
      assert.ok(moved.size > 1);

      const headers = { "x-session-id": "session-0" };
      const home = (await one("spread", {}, headers)).asked;
      const name = home.slice(0, 1) as Name;
      ups[name].script(chatError(429, { headers: { "retry-after": "60" } }));
      const away = await one("spread", {}, headers);
      assert.equal(away.status, 200);
      const refuge = away.asked.split(" ")[1];
      // It rests here, and the other replica finds out by itself; both take the same other place.
      assert.equal((await one("spread", {}, headers)).asked, refuge);
      assert.equal((await two("spread", {}, headers)).asked, away.asked);
      assert.equal((await two("spread", {}, headers)).asked, refuge);
    });
  });
});

Deno.test("the steps of a run stay in one place", async () => {
  const models = { spread: { targets: ["a/m", "b/m", "c/m"], strategy: "weights" } };
  const agents = { clerk: { models: ["spread"], tools: ["hub.calculate"] } };
  await withRig(() => ({ models, agents }), async ({ hub, ups }) => {
    const toolCalls = [{ name: "hub_calculate", arguments: { expression: "6*7" } }];
    for (const name of NAMES) {
      ups[name].script(({ messages }) =>
        messages.length < 8 ? chatStream({ toolCalls }) : chatStream({ text: "42" })
      );
    }
    for (let turn = 0; turn < 4; turn++) {
      const before = NAMES.map((name) => ups[name].requests.length);
      const session = await (await hub.call("/v1/sessions", { body: { agent: "clerk" } })).json();
      const said = await hub.call(`/v1/sessions/${session.id}/messages`, { body: { text: "Hi" } });
      assert.match(await said.text(), /"finishReason":"stop"/);
      const asked = NAMES.map((name, at) => ups[name].requests.length - (before[at] ?? 0));
      assert.equal(asked.filter((count) => count > 0).length, 1, String(asked));
      assert.ok(Math.max(...asked) >= 3);
    }
  });
});

Deno.test("a late first target is raced by the second; the loser's socket is closed within 250 ms", async () => {
  const models = {
    quick: { targets: ["a/m", "b/m"], hedge: { afterMs: 100, maxPercent: 100 } },
    rare: { targets: ["a/m", "b/m"], hedge: { afterMs: 20, maxPercent: 25 } },
  };
  await withRig(() => ({ models }), async ({ hub, ups, ask }) => {
    let races = 0;
    for (const stream of [true, false]) {
      const never = { before: [{ wait: new Promise(() => {}) }], body: "" };
      ups.a.script(stream ? chatStream({ text: "a", endAfter: 1, end: "stall" }) : never);
      await tookUnder(250, async () => {
        const closes = ups.a.closedByClient.length;
        const answer = await hub.call("/v1/chat/completions", {
          body: { model: "quick", stream, messages },
        });
        races++;
        const beganMs = performance.now();
        assert.equal(answer.status, 200);
        assert.match(
          answer.headers.get("x-loophub-attempts") ?? "",
          /^a\/m;aborted;(200|-);\d+, b\/m;ok;200;\d+$/,
        );
        await ups.a.until(() => ups.a.closedByClient.length > closes);
        const closed = ups.a.closedByClient.at(-1);
        assert.match(await answer.text(), /"content":"b/);
        return (closed?.atMs ?? NaN) - beganMs;
      });
    }
    const rows = await rowsOf(hub, "quick", 2 * races);
    assert.deepEqual(
      rows.map(({ provider, outcome, error_code }) => `${provider} ${outcome} ${error_code}`),
      Array.from({ length: races }, () => ["a aborted aborted", "b ok null"]).flat(),
    );
    ups.a.script((request) => ({ ...says("a")(request), before: [{ delayMs: 500 }] }));
    let raced = 0;
    for (let turn = 1; turn <= 12; turn++) {
      if ((await ask("rare")).asked.includes("b/m")) raced++;
      assert.ok(raced <= turn * 0.25, `${raced} of ${turn}`);
    }
    assert.equal(raced, 3);
  });
});

Deno.test("rules send large, streamed and tagged requests elsewhere", async () => {
  const models = {
    sorted: {
      targets: ["a/m"],
      rules: [
        { when: { minBytes: 2000 }, targets: ["c/long", "a/m"] },
        { when: { stream: true, tag: "batch" }, targets: ["c/m"] },
        { when: { stream: true }, targets: ["b/m"] },
      ],
    },
  };
  await withRig(() => ({ models }), async ({ hub, ups, ask }) => {
    assert.equal((await ask("sorted")).asked, "a/m");
    const made = await hub.call("/v1/admin/keys", { body: { name: "night", tags: ["batch"] } });
    const tagged = { authorization: `Bearer ${(await made.json()).token}` };
    assert.equal((await ask("sorted", { stream: true }, tagged)).asked, "c/m");
    assert.equal((await ask("sorted", {}, tagged)).asked, "a/m");
    assert.equal((await ask("sorted", { stream: true })).asked, "b/m");
    const user = "x".repeat(2000);
    assert.equal((await ask("sorted", { user, stream: true })).asked, "c/long");
    ups.c.script(chatError(500));
    assert.equal((await ask("sorted", { user })).asked, "c/long a/m");
  });
});

Deno.test("a request that one provider's dialect cannot carry is answered by the next, and refused when none can", async () => {
  const withOllama = ({ providers }: TestConfig) => {
    const { a, b, c } = providers as Record<Name, JsonObject>;
    return {
      providers: { a: { ...a, kind: "ollama" }, b, c },
      models: { mixed: { targets: ["a/m", "b/m"] } },
    };
  };
  await withRig(withOllama, async ({ hub, ask }) => {
    const tools = [{ type: "function", function: { name: "f", parameters: {} } }];
    const forced = { tools, tool_choice: "required" };
    const helped = await ask("mixed", forced);
    assert.equal(helped.asked, "b/m");
    assert.match(helped.attempts, /^a\/m;invalid_request;-;\d+, b\/m;ok;200;\d+$/);
    const refused = await ask("a/m", forced);
    assert.equal(refused.status, 400);
    assert.equal(JSON.parse(refused.text).error.param, "tool_choice");
    assert.equal((await rowsOf(hub, "mixed", 1)).length, 1);
  });
});

Deno.test("a run that finds its provider full in a later step waits for a place", async () => {
  const withOnePlace = ({ providers }: TestConfig) => {
    const { a, b, c } = providers as Record<Name, JsonObject>;
    return {
      providers: { a: { ...a, maxConcurrent: 1, maxQueued: 0 }, b, c },
      operations: {
        modules: [fileURLToPath(new URL("../fixtures/operations/ask.ts", import.meta.url))],
      },
      agents: { clerk: { models: ["a/m"], tools: ["test.ask"] } },
    };
  };
  await withRig(withOnePlace, async ({ hub, ups, ask }) => {
    const [tool, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    ups.b.script({ before: [{ wait: tool.promise }], body: "done" });
    const toolCalls = [{ name: "test_ask", arguments: { url: ups.b.url } }];
    ups.a.script((request) => {
      const { json: { model }, messages } = request;
      if (model === "other") return { ...says("other")(request), before: [{ wait: held.promise }] };
      return messages.length > 2 ? says("after all")(request) : chatStream({ toolCalls });
    });
    const session = await (await hub.call("/v1/sessions", { body: { agent: "clerk" } })).json();
    const said = await hub.call(`/v1/sessions/${session.id}/messages`, { body: { text: "Hi" } });
    await ups.b.until(() => ups.b.requests.length === 1);
    // While the tool runs somebody else takes the only place.
    const other = ask("a/other");
    await ups.a.until(() => ups.a.requests.length === 2);
    tool.resolve();
    await eventually(async () => {
      const text = await (await hub.call("/metrics")).text();
      return /turned_away_total\{gate="provider",name="a",reason="full"\} [1-9]/.test(text) || null;
    });
    held.resolve();
    assert.equal((await other).status, 200);
    const events = await said.text();
    assert.match(events, /after/);
    assert.match(events, /"finishReason":"stop"/);
    assert.deepEqual(ups.a.requests.map(({ json }) => json.model), ["m", "other", "m"]);
  });
});
