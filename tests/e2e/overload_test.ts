import assert from "node:assert/strict";
import OpenAI from "openai";
import { issueSecondKey } from "../support/second_key.ts";
import {
  chatCompletion,
  chatStream,
  type Reply,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, type TestConfig, type TestHub, withHub } from "../support/test_hub.ts";

const messages = [{ role: "user" as const, content: "Hi" }];

interface Rig {
  hub: TestHub & { dataDir: string };
  upstream: ScriptedUpstream;
  /** Asks for a completion named by its model, whole or streamed, with the hub's first key unless told. */
  ask(
    name: string,
    options?: { stream?: boolean; signal?: AbortSignal; key?: string },
  ): Promise<Response>;
  /** Holds back all answers from now on, or those of some models; gives what lets them go. */
  hold(reply?: (model: string) => Reply, isHeld?: (model: string) => boolean): () => void;
  /** A series of the gate, waited for until it is this. */
  gate(series: string, wanted: number): Promise<true>;
}

const modelOf = ({ text }: { text: string }) => String(JSON.parse(text).model);

async function withRig(config: TestConfig, use: (rig: Rig) => Promise<void>): Promise<void> {
  const upstream = await startScriptedUpstream();
  const { providers: _, ...rest } = config;
  const provider = config["providers"] as Record<string, TestConfig> | undefined;
  const up = { baseUrl: upstream.url, apiKey: "sk-up", ...provider?.["up"] };
  try {
    await withHub({ defaultModel: "up/m", ...rest, providers: { up } }, async (hub) => {
      await use({
        hub,
        upstream,
        ask: (name, { stream = false, signal, key = hub.key } = {}) =>
          hub.call("/v1/chat/completions", {
            body: { model: `up/${name}`, stream, messages },
            headers: { authorization: `Bearer ${key}` },
            ...(signal === undefined ? {} : { signal }),
          }),
        hold(reply = (model) => chatCompletion({ text: model }), isHeld = () => true) {
          const gate = Promise.withResolvers<void>();
          upstream.script((request) => {
            const model = modelOf(request);
            return {
              ...reply(model),
              ...(isHeld(model) ? { before: [{ wait: gate.promise }] } : {}),
            };
          });
          return gate.resolve;
        },
        gate: (series, wanted) =>
          eventually(async () => {
            const text = await (await hub.call("/metrics")).text();
            const line = text.split("\n").find((line) =>
              line.startsWith(`loophub_gate_${series} `)
            );
            return Number(line?.slice(line.lastIndexOf(" "))) === wanted ? true : null;
          }),
      });
    });
  } finally {
    await upstream.stop();
  }
}

/** Those that were refused are checked and counted; the others must be whole. */
async function sort(answers: Promise<Response>[], refusal: { status: number; code: string }) {
  const served: string[] = [];
  let refused = 0;
  for (const answer of await Promise.all(answers)) {
    const body = await answer.json();
    if (answer.status === 200) {
      served.push(body.choices[0].message.content);
      continue;
    }
    refused++;
    assert.equal(answer.status, refusal.status);
    assert.equal(body.error.code, refusal.code);
    const seconds = Number(answer.headers.get("retry-after"));
    assert.ok(Number.isInteger(seconds) && seconds >= 1 && seconds <= 60, `${seconds} s`);
    assert.equal(answer.headers.get("x-should-retry"), null);
  }
  return { served, refused };
}

const GATES = [
  {
    gate: "hub",
    labels: '{gate="hub",name=""',
    config: { server: { maxConcurrentRequests: 4, maxQueuedRequests: 6, queueTimeoutMs: 60_000 } },
    refusal: { status: 503, code: "overloaded" },
    errorClass: OpenAI.InternalServerError,
  },
  {
    gate: "key",
    labels: '{gate="key",name=""',
    config: {
      limits: { maxConcurrentPerKey: 4, maxQueuedPerKey: 6 },
      server: { queueTimeoutMs: 60_000 },
    },
    refusal: { status: 429, code: "rate_limit_exceeded" },
    errorClass: OpenAI.RateLimitError,
  },
  {
    gate: "provider",
    labels: '{gate="provider",name="up"',
    config: { providers: { up: { maxConcurrent: 4, maxQueued: 6, queueTimeoutMs: 60_000 } } },
    refusal: { status: 503, code: "overloaded" },
    errorClass: OpenAI.InternalServerError,
  },
];

type LimitedGate = typeof GATES[number];

for (const limited of GATES) {
  Deno.test(`the ${limited.gate} under ten times what it can do`, async (t) => {
    await withRig(limited.config, async (rig) => {
      await t.step(
        "what was let in is served in order, the rest refused",
        () => refuse(rig, limited),
      );
      await t.step("who leaves the queue is never seen upstream", () => leave(rig, limited));
    });
  });
}

async function refuse(
  { hub, upstream, ask, hold, gate }: Rig,
  { labels, refusal, errorClass }: LimitedGate,
): Promise<void> {
  const release = hold();
  const names = Array.from({ length: 100 }, (_, at) => `m${at}`);
  const answers = names.slice(0, 4).map((name) => ask(name));
  await upstream.until(() => upstream.requests.length === 4);
  for (let at = 4; at < 10; at++) {
    answers.push(ask(names[at] ?? ""));
    await gate(`waiting${labels}}`, at - 3);
  }
  answers.push(...names.slice(10).map((name) => ask(name)));
  await gate(`turned_away_total${labels},reason="full"}`, 90);
  await gate(`inside${labels}}`, 4);

  // Refused while the others still wait: in the client's own words.
  const client = new OpenAI({ apiKey: hub.key, baseURL: `${hub.url}/v1`, maxRetries: 0 });
  await assert.rejects(
    client.chat.completions.create({ model: "up/late", messages }),
    (error) => error instanceof errorClass && error.status === refusal.status,
  );
  for (const path of ["/healthz", "/readyz", "/metrics"]) {
    const answer = await hub.call(path);
    await answer.body?.cancel();
    assert.equal(answer.status, 200, path);
  }

  release();
  const { served, refused } = await sort(answers, refusal);
  assert.deepEqual(served, names.slice(0, 10));
  assert.equal(refused, 90);
  // First come, first in; and nobody else was ever sent.
  const sent = upstream.requests.map(modelOf);
  assert.deepEqual(sent.slice(0, 4).toSorted(), names.slice(0, 4));
  assert.deepEqual(sent.slice(4), names.slice(4, 10));
  await gate(`inside${labels}}`, 0);
  await gate(`waiting${labels}}`, 0);
  assert.equal((await sort([ask("after")], refusal)).served[0], "after");
}

async function leave(
  { hub, upstream, ask, hold, gate }: Rig,
  { labels, refusal }: LimitedGate,
): Promise<void> {
  const before = upstream.requests.length;
  const release = hold();
  const first = Array.from({ length: 4 }, (_, at) => ask(`n${at}`));
  await upstream.until(() => upstream.requests.length === before + 4);
  const leaving = Array.from({ length: 6 }, () => new AbortController());
  const left = leaving.map(({ signal }, at) =>
    assert.rejects(ask("left", { signal, stream: at % 2 === 0 }))
  );
  await gate(`waiting${labels}}`, 6);
  for (const abort of leaving) abort.abort();
  await Promise.all(left);
  await gate(`turned_away_total${labels},reason="left"}`, 6);
  await gate(`waiting${labels}}`, 0);
  const patient = ask("patient");
  await gate(`waiting${labels}}`, 1);
  release();
  const { served } = await sort([...first, patient], refusal);
  assert.deepEqual(served, ["n0", "n1", "n2", "n3", "patient"]);
  assert.ok(!upstream.requests.map(modelOf).includes("left"));
  const rows = () =>
    hub.hub.start.db.read<{ model: string }[]>`
        select model from hub.usage where model like any ('{n%,left,patient}') order by model`;
  const models = await eventually(async () => {
    const found = await rows();
    return found.length >= 5 ? found.map(({ model }) => model) : null;
  });
  assert.deepEqual(models, ["n0", "n1", "n2", "n3", "patient"]);
  await gate(`inside${labels}}`, 0);
}

Deno.test("a key that floods waits for itself: another key has all its places, at once and in order", async () => {
  const config = {
    limits: { maxConcurrentPerKey: 4, maxQueuedPerKey: 6 },
    // Room for both keys, and for nobody that waits.
    server: { maxConcurrentRequests: 8, maxQueuedRequests: 0, queueTimeoutMs: 60_000 },
    providers: { up: { maxConcurrent: 8, maxQueued: 0, queueTimeoutMs: 60_000 } },
  };
  await withRig(config, async ({ hub, upstream, ask, hold, gate }) => {
    const key = await issueSecondKey(hub);
    const labels = '{gate="key",name=""';
    const refusal = { status: 429, code: "rate_limit_exceeded" };
    const release = hold(undefined, (model) => /^noisy|^held/.test(model));
    const noisy = Array.from({ length: 100 }, (_, at) => ask(`noisy${at}`));
    await gate(`turned_away_total${labels},reason="full"}`, 90);
    await upstream.until(() => upstream.requests.length === 4);

    // One after the other, and as many at a time as the key may have: each is answered while the flood stands.
    const quiet: string[] = [];
    for (let at = 0; at < 20; at++) {
      quiet.push(...(await sort([ask(`quiet${at}`, { key })], refusal)).served);
    }
    assert.deepEqual(quiet, Array.from({ length: 20 }, (_, at) => `quiet${at}`));
    assert.deepEqual(upstream.requests.slice(4).map(modelOf), quiet);
    const held = ["held0", "held1", "held2", "held3"].map((name) => ask(name, { key }));
    await upstream.until(() => upstream.requests.length === 28);
    await gate('inside{gate="hub",name=""}', 8);
    await gate('inside{gate="provider",name="up"}', 8);

    // Nobody of the flood has moved, and neither hub nor provider has turned anybody away.
    const before = upstream.requests.map(modelOf);
    assert.equal(before.filter((model) => model.startsWith("noisy")).length, 4);
    await gate(`waiting${labels}}`, 6);
    await gate(`turned_away_total${labels},reason="full"}`, 90);
    for (const other of ['{gate="hub",name=""', '{gate="provider",name="up"']) {
      await gate(`turned_away_total${other},reason="full"}`, 0);
    }
    release();
    assert.deepEqual(
      await sort(noisy, refusal).then(({ served, refused }) => [
        served.length,
        refused,
      ]),
      [10, 90],
    );
    assert.deepEqual((await sort(held, refusal)).served, ["held0", "held1", "held2", "held3"]);
    await gate(`inside${labels}}`, 0);
  });
});

Deno.test("who waits too long is refused, and the place that comes free later goes to the next", async () => {
  const config = { server: { maxConcurrentRequests: 1, queueTimeoutMs: 300 } };
  await withRig(config, async ({ upstream, ask, hold, gate }) => {
    const release = hold();
    const first = ask("first");
    await upstream.until(() => upstream.requests.length === 1);
    const refusal = { status: 503, code: "overloaded" };
    assert.equal((await sort([ask("late")], refusal)).refused, 1);
    await gate('turned_away_total{gate="hub",name="",reason="late"}', 1);
    release();
    assert.deepEqual((await sort([first], refusal)).served, ["first"]);
    assert.deepEqual((await sort([ask("next")], refusal)).served, ["next"]);
    assert.deepEqual(upstream.requests.map(modelOf), ["first", "next"]);
  });
});

Deno.test("a stream that waits for its provider gets comments, and one that never comes in an error", async () => {
  const config = {
    server: { keepaliveMs: 50 },
    providers: { up: { maxConcurrent: 1, maxQueued: 1, queueTimeoutMs: 60_000 } },
  };
  await withRig(config, async ({ upstream, ask, hold, gate }) => {
    const release = hold((model) => chatStream({ text: model }));
    const first = ask("first", { stream: true });
    await upstream.until(() => upstream.requests.length === 1);
    const waiting = await ask("waiting", { stream: true });
    assert.equal(waiting.status, 200);
    const reader = waiting.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    while (!text.includes(": ping")) text += (await reader?.read())?.value ?? "";
    assert.match(text, /^: open/);
    const refused = await ask("refused", { stream: true });
    assert.equal(refused.status, 503);
    await refused.body?.cancel();
    assert.equal(upstream.requests.length, 1);
    release();
    for (let read = await reader?.read(); read?.done === false; read = await reader?.read()) {
      text += read.value;
    }
    assert.match(text, /data: \[DONE\]/);
    assert.match(await (await first).text(), /data: \[DONE\]/);
    await gate('inside{gate="provider",name="up"}', 0);
  });
});

Deno.test("a full hub still lets runs be followed and stopped", async () => {
  const config = {
    server: { maxConcurrentRequests: 1, maxQueuedRequests: 0 },
  };
  await withRig(config, async ({ hub, upstream, hold, gate }) => {
    const release = hold((model) => chatStream({ text: model }));
    const session = await (await hub.call("/v1/sessions", { body: {} })).json();
    await gate('inside{gate="hub",name=""}', 0);
    const said = await hub.call(`/v1/sessions/${session.id}/messages`, { body: { text: "Hi" } });
    const runId = said.headers.get("x-loophub-run");
    await upstream.until(() => upstream.requests.length === 1);
    const refused = await hub.call("/v1/models");
    assert.equal(refused.status, 503);
    await refused.body?.cancel();
    const followed = await hub.call(`/v1/runs/${runId}/stream`);
    assert.equal(followed.status, 200);
    const stopped = await hub.call(`/v1/runs/${runId}/stop`, { method: "POST" });
    assert.equal(stopped.status, 202);
    await stopped.body?.cancel();
    assert.match(await followed.text(), /"type":"abort"/);
    await said.text();
    release();
    await gate('inside{gate="hub",name=""}', 0);
    await gate('inside{gate="provider",name="up"}', 0);
  });
});
