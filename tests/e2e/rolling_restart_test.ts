import assert from "node:assert/strict";
import { followOne, type Witness } from "../chaos/client.ts";
import { startChaosModel } from "../chaos/model.ts";
import { Moments } from "../chaos/moments.ts";
import { judgeEffects, judgeRun } from "../chaos/verdict.ts";
import { startBalancer } from "../support/balancer.ts";
import { type HubProcess, startHubProcess } from "../support/hub_process.ts";
import { openTestDatabase, startTestPostgres } from "../support/postgres.ts";
import { chatCompletion, chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually } from "../support/test_hub.ts";

const REPLICAS = 3;
const CLIENTS = 4;
/** More than a leaving replica takes while load balancers notice, so that runs are handed on. */
const STEPS = 60;
const WORDS = Array.from({ length: 20 }, (_, at) => `word${at} `).join("");

Deno.test("a rolling restart of three replicas under load loses no request and no run", async () => {
  const upstream = await startScriptedUpstream(({ json }) => {
    const { stream } = json as { stream?: boolean };
    if (stream === true) return chatStream({ text: WORDS, delayMs: 10 });
    return { ...chatCompletion({ text: WORDS }), before: [{ delayMs: 20 }] };
  });
  const model = startChaosModel(STEPS, new Moments());
  const postgres = await startTestPostgres();
  const balancer = await startBalancer();
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-rolling-" });
  const effects = `${folder}/effects.txt`;
  await Deno.writeTextFile(effects, "");
  await Deno.writeTextFile(
    `${folder}/loophub.json`,
    JSON.stringify({
      server: { shutdownDelayMs: 1000, shutdownGraceMs: 20_000 },
      providers: { chaos: { baseUrl: model.url }, one: { baseUrl: upstream.url } },
      defaultModel: "chaos/m",
      log: { level: "warn" },
      runs: { leaseMs: 60_000 },
      operations: { modules: [new URL("../chaos/effects.ts", import.meta.url).pathname] },
      agents: { default: { tools: ["chaos.*"], maxSteps: STEPS + 5 } },
    }),
  );
  const env = { DATABASE_URL: postgres.url, CHAOS_EFFECTS: effects, CHAOS_GATE: model.gate };
  const db = openTestDatabase(postgres.url, { poolSize: 2, readPoolSize: 2 });
  const replicas: HubProcess[] = [];
  const start = async (at: number) => {
    const replica = await startHubProcess(folder, env);
    replicas[at] = replica;
    balancer.add(replica.url);
    await balancer.ready(replica.url);
    return replica;
  };
  try {
    const first = await start(0);
    const key = await eventually(() => Promise.resolve(first.key()));
    while (replicas.length < REPLICAS) await start(replicas.length);
    const refused: string[] = [];
    const target = {
      key,
      url: () => balancer.url,
      onRefused: (why: string) => void refused.push(why),
    };
    let restarting = true;
    let proxied = 0;
    const witnesses: Witness[] = [];
    const follow = async () => {
      do witnesses.push(await followOne(target, "Go through all rounds")); while (restarting);
    };
    const ask = async (stream: boolean) => {
      do {
        try {
          const answer = await fetch(`${balancer.url}/v1/chat/completions`, {
            method: "POST",
            headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
            body: JSON.stringify({
              model: "one/m",
              stream,
              messages: [{ role: "user", content: "Hello" }],
            }),
          });
          const text = await answer.text();
          const isWhole = stream
            ? text.endsWith("data: [DONE]\n\n")
            : JSON.parse(text).choices[0].message.content === WORDS;
          if (answer.status !== 200 || !isWhole) refused.push(`${answer.status}: ${text}`);
        } catch (error) {
          refused.push(`stream ${stream}: ${error}`);
        }
        proxied++;
      } while (restarting);
    };
    const load = Promise.all(
      Array.from({ length: CLIENTS }, (_, at) => [follow(), ask(at % 2 === 0), ask(at % 2 === 1)])
        .flat(),
    );
    for (const at of replicas.keys()) {
      const leaving = replicas[at] ?? assert.fail("no replica");
      assert.equal(await leaving.end("SIGTERM"), 0, leaving.err());
      balancer.remove(leaving.url);
      await start(at);
    }
    restarting = false;
    await load;
    assert.deepEqual(refused, []);
    assert.equal(balancer.refused, 0);
    let owners = 0;
    for (const witness of witnesses) owners += (await judgeRun(db, witness, target)).owners;
    const done = await judgeEffects(db, {
      runs: witnesses.map(({ runId }) => runId),
      effects: await Deno.readTextFile(effects),
    });
    assert.deepEqual(done, { done: witnesses.length * STEPS, unknown: 0 });
    assert.ok(owners > witnesses.length && proxied > 50, `${owners} ${proxied}`);
    const gaps = witnesses.map(({ longestGapMs }) => Math.round(longestGapMs));
    // Nobody has waited for a lease to run out.
    assert.ok(Math.max(...gaps) < 30_000, `${gaps}`);
  } finally {
    for (const replica of replicas) await replica.end("SIGKILL").catch(() => {});
    await db.close();
    await balancer.stop();
    await postgres.stop();
    await model.stop();
    await upstream.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
