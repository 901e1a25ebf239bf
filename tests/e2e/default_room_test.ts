import assert from "node:assert/strict";
import { issueSecondKey } from "../support/second_key.ts";
import { eventually, type TestHub, withHub } from "../support/test_hub.ts";

const PATH = "/v1/chat/completions";
const PER_KEY = 200;
const OF_THE_HUB = 1000;

/** Requests whose bodies do not end, so that each keeps its place; gives what ends them. */
function hold({ hub }: TestHub, key: string, count: number): () => Promise<void> {
  const bodies: ReadableStreamDefaultController<Uint8Array>[] = [];
  const answers = Array.from({ length: count }, async () => {
    const answer = await hub.app.request(PATH, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: new ReadableStream({ start: (controller) => void bodies.push(controller) }),
    });
    await answer.body?.cancel();
    assert.equal(answer.status, 400);
  });
  return async () => {
    for (const body of bodies) body.close();
    await Promise.all(answers);
  };
}

async function inside(hub: TestHub, gate: string, wanted: number): Promise<void> {
  await eventually(async () => {
    const text = await (await hub.call("/metrics")).text();
    return text.includes(`loophub_gate_inside{gate="${gate}",name=""} ${wanted}\n`) || null;
  });
}

async function assertRefused(
  hub: TestHub,
  key: string,
  wanted: { status: number; code: string; words: RegExp },
): Promise<void> {
  const answer = await hub.call("/v1/models", { headers: { authorization: `Bearer ${key}` } });
  const { error } = await answer.json();
  assert.deepEqual([answer.status, error.code], [wanted.status, wanted.code]);
  assert.match(error.message, wanted.words);
  const seconds = Number(answer.headers.get("retry-after"));
  assert.ok(Number.isInteger(seconds) && seconds >= 1 && seconds <= 60, `${seconds} s`);
  assert.equal(answer.headers.get("x-should-retry"), null);
}

async function assertHealthy(hub: TestHub): Promise<void> {
  for (const path of ["/healthz", "/readyz", "/metrics", "/openapi.json"]) {
    const answer = await hub.call(path);
    await answer.body?.cancel();
    assert.equal(answer.status, 200, path);
  }
}

/** Nothing waits, and no provider is asked. */
const providers = { up: { baseUrl: "http://127.0.0.1:1/v1", apiKey: "sk-up" } };
const base = { providers, defaultModel: "up/m" };

Deno.test("without settings, a key and the hub have room for so many requests and no more", async () => {
  const config = { ...base, server: { maxQueuedRequests: 0 }, limits: { maxQueuedPerKey: 0 } };
  await withHub(config, async (hub) => {
    const keys = [hub.key];
    while (keys.length < 6) keys.push(await issueSecondKey(hub));
    const [first = "", ...others] = keys;
    const ends = [hold(hub, first, PER_KEY)];
    await inside(hub, "key", PER_KEY);
    const ofKey = {
      status: 429,
      code: "rate_limit_exceeded",
      words: new RegExp(`The API key key_\\S+ has ${PER_KEY} requests under way`),
    };
    await assertRefused(hub, first, ofKey);
    await assertHealthy(hub);
    // It holds up no other key.
    const other = others.pop() ?? "";
    const answer = await hub.call("/v1/models", { headers: { authorization: `Bearer ${other}` } });
    await answer.body?.cancel();
    assert.equal(answer.status, 200);

    for (const key of others) ends.push(hold(hub, key, PER_KEY));
    await inside(hub, "hub", OF_THE_HUB);
    const words = new RegExp(`The hub has ${OF_THE_HUB} requests under way`);
    await assertRefused(hub, other, { status: 503, code: "overloaded", words });
    await assertHealthy(hub);

    await Promise.all(ends.map((end) => end()));
    await inside(hub, "hub", 0);
    await inside(hub, "key", 0);
  });
});

Deno.test("0 takes the bounds away", async () => {
  const config = {
    ...base,
    server: { maxConcurrentRequests: 0, maxQueuedRequests: 0 },
    limits: { maxConcurrentPerKey: 0, maxQueuedPerKey: 0 },
  };
  await withHub(config, async (hub) => {
    const end = hold(hub, hub.key, OF_THE_HUB + 1);
    const answer = await hub.call("/v1/models");
    await answer.body?.cancel();
    assert.equal(answer.status, 200);
    await end();
  });
});
