import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import type { HubEvent } from "../../src/core/event.ts";
import type { JsonObject } from "../../src/core/json.ts";
import { logOf } from "./log_of.ts";
import { chatStream, type RecordedRequest, startScriptedUpstream } from "./scripted_upstream.ts";
import { eventually, type TestHub, withReplicas } from "./test_hub.ts";

/** A server that notes what tools did. */
export function startTill() {
  const paid: string[] = [];
  let gate = Promise.resolve();
  let release = () => {};
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    async (request) => {
      paid.push((await request.text()).split(" ")[1] ?? "");
      await gate;
      return new Response("paid");
    },
  );
  return {
    url: `http://127.0.0.1:${server.addr.port}/`,
    paid,
    /** What is paid from now on is not answered until `release`. */
    hold() {
      const held = Promise.withResolvers<void>();
      gate = held.promise;
      release = held.resolve;
    },
    release: () => release(),
    stop: () => server.shutdown(),
  };
}

export const PAY = new URL("../fixtures/operations/pay.ts", import.meta.url).pathname;

export interface Rig {
  first: TestHub;
  second: TestHub;
  paid: string[];
  /** The next run asks for these payments in its first step, looks at the clock beside them, and then says a word. */
  script(...amounts: number[]): RecordedRequest[];
}

export async function withTwo(
  runs: JsonObject,
  body: (rig: Rig) => Promise<void>,
  agents: JsonObject = {},
  /** Of the second replica alone. */
  others: JsonObject = {},
) {
  const upstream = await startScriptedUpstream();
  const till = startTill();
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    operations: { modules: [PAY] },
    agents: { default: {}, careful: { approvals: { ask: ["hub.current_*"] } }, ...agents },
    runs: { leaseMs: 15_000, ...runs },
  };
  const script = (...amounts: number[]) => {
    const requests: RecordedRequest[] = [];
    upstream.script((request) => {
      requests.push(request);
      if (requests.length > 1) return chatStream({ text: "Done" });
      const pays = amounts.map((amount) => ({
        name: "test_pay",
        arguments: { url: till.url, amount },
      }));
      return chatStream({ toolCalls: [...pays, { name: "hub_current_time", arguments: {} }] });
    });
    return requests;
  };
  try {
    await withReplicas(
      [config, { ...config, ...others }],
      (first, second) => body({ first, second, paid: till.paid, script }),
    );
  } finally {
    await upstream.stop();
    await till.stop();
  }
}

/** Begins a run, in a new session unless one is named. */
export async function start(hub: TestHub, body: JsonObject = {}) {
  const { session: given, ...rest } = body;
  const session = typeof given === "string"
    ? given
    : (await (await hub.call("/v1/sessions", { body: {} })).json()).id;
  const answer = await hub.call(`/v1/sessions/${session}/messages`, {
    body: { text: "Go", ...rest },
  });
  assert.equal(answer.status, 200, answer.ok ? "" : await answer.text());
  return { session, runId: answer.headers.get("x-loophub-run") ?? "", stream: answer.text() };
}

export const runOf = async (hub: TestHub, runId: string) =>
  await (await hub.call(`/v1/runs/${runId}`)).json();

/** A question as the API shows it. */
export interface Asked {
  id: string;
  toolName: string;
  input: { amount?: number };
  state: string;
  tier: string;
  preview: unknown;
  tainted: string[];
  createdAt: string;
  expiresAt: string;
  remember: string | null;
  risk: string;
  hash: string;
}

export async function approvalsOf(hub: TestHub, runId: string): Promise<[Asked, ...Asked[]]> {
  const { data: approvals } = await (await hub.call(`/v1/runs/${runId}/approvals`)).json();
  assert.ok(approvals.length > 0, `${runId} has asked nobody`);
  return approvals;
}

/** Waits until the run waits for people, with its first step's other calls done; gives its questions. */
export async function untilWaiting(hub: TestHub, runId: string) {
  await eventually(async () => (await runOf(hub, runId)).status === "waiting" ? true : null);
  return await approvalsOf(hub, runId);
}

export async function answer(hub: TestHub, runId: string, id: string, body: JsonObject) {
  const reply = await hub.call(`/v1/runs/${runId}/approvals/${id}`, { body });
  return { status: reply.status, ...await reply.json() };
}

/** Reads the run's stream to its end, here from its begin and there as a replay: the same bytes, and a valid log. */
export async function checkStreams(
  stream: Promise<string>,
  hubs: readonly TestHub[],
  runId: string,
): Promise<HubEvent[]> {
  const live = await stream;
  const log = logOf(live);
  assert.deepEqual(checkLog(log), []);
  const durable = (text: string) => text.split("\n\n").filter((frame) => frame.startsWith("id: "));
  for (const hub of hubs) {
    const replay = await (await hub.call(`/v1/runs/${runId}/stream`)).text();
    assert.deepEqual(durable(replay), durable(live));
  }
  return log.map(({ event }) => event);
}

export const countOf = (events: readonly HubEvent[], type: HubEvent["type"]) =>
  events.filter((event) => event.type === type).length;
