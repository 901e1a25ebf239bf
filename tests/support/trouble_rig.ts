import assert from "node:assert/strict";
import type { HubEvent, SequencedEvent } from "../../src/core/event.ts";
import type { JsonObject } from "../../src/core/json.ts";
import { type PostgresServer, withPostgresServer } from "./postgres_server.ts";
import {
  chatCompletion,
  chatFrames,
  type Frame,
  type Reply,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "./scripted_upstream.ts";
import { startTcpProxy, type TcpProxy } from "./tcp_proxy.ts";
import { eventually, startTestHub, type TestHub } from "./test_hub.ts";

/** A hub that reaches its Postgres through a proxy, and an upstream. */
export interface TroubleRig {
  server: PostgresServer;
  proxy: TcpProxy;
  hub: TestHub;
  upstream: ScriptedUpstream;
}

/** What each step of the model says. */
export const TEXT = Array.from({ length: 40 }, (_, at) => `word${at} `).join("");

/** Runs a body with such a hub, then stops everything. */
export async function withTroubleRig(
  settings: { deadlineMs: number; leaseMs?: number },
  body: (rig: TroubleRig) => Promise<void>,
): Promise<void> {
  await withPostgresServer(async (server) => {
    const upstream = await startScriptedUpstream();
    const proxy = await startTcpProxy(server.url);
    const dataDir = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-trouble-hub-" });
    const hub = await startTestHub({
      providers: { one: { baseUrl: upstream.url } },
      defaultModel: "one/m",
      database: { statementTimeoutMs: settings.deadlineMs },
      runs: { leaseMs: settings.leaseMs ?? 15_000 },
    }, { databaseUrl: proxy.through(server.url), dataDir });
    try {
      await body({ server, proxy, hub, upstream });
    } finally {
      await hub.close();
      await proxy.stop();
      await upstream.stop();
      await Deno.remove(dataDir, { recursive: true });
    }
  });
}

/** `steps` steps of one run, the first of which waits in its middle; whole answers for all who do not stream. */
export function scriptSteps(
  upstream: ScriptedUpstream,
  { gate, steps }: { gate: Promise<void>; steps: number },
): void {
  let step = 0;
  upstream.script((request): Reply => {
    const { stream, tools = [] } = request.json as {
      stream?: boolean;
      tools?: { function: { name: string } }[];
    };
    const usage = { promptTokens: 20, completionTokens: 4 };
    if (stream !== true) return chatCompletion({ text: "Hello", usage });
    const at = step++;
    const name = tools.find((tool) => tool.function.name.includes("calculate"))?.function.name;
    const toolCalls = [{ name: name ?? "", arguments: { expression: `${at}*7` } }];
    const frames: Frame[] = chatFrames({
      text: TEXT,
      usage,
      ...(at < steps - 1 ? { toolCalls } : {}),
    });
    if (at === 0) frames.splice(20, 0, { wait: gate });
    return { headers: { "content-type": "text/event-stream" }, frames };
  });
}

/** A request to the proxy. */
export const ask = (hub: TestHub) =>
  hub.call("/v1/chat/completions", {
    body: { model: "one/m", messages: [{ role: "user", content: "Hi" }] },
  });

/** The status of an answer whose body nobody wants. */
export async function statusOf(answer: Promise<Response>): Promise<number> {
  const { status, body } = await answer;
  await body?.cancel();
  return status;
}

/** Asks until it is served: a connection may learn of its end with the next statement. */
const served = (hub: TestHub, path: string, body: JsonObject) =>
  eventually(async () => {
    const answer = await hub.call(path, { body });
    if (answer.ok) return answer;
    assert.equal(answer.status, 503, await answer.text());
    return null;
  });

/** A new session's id. */
export async function newSession(hub: TestHub): Promise<string> {
  return (await (await served(hub, "/v1/sessions", {})).json()).id;
}

/** Begins a run and reads its stream as it comes; `done` resolves with what came until its end or its break. */
export async function beginRun(hub: TestHub, session: string) {
  const message = { text: "Go", id: crypto.randomUUID() };
  const answer = await served(hub, `/v1/sessions/${session}/messages`, message);
  const state = { text: "" };
  const read = async () => {
    const decoder = new TextDecoder();
    try {
      for await (const bytes of answer.body ?? []) state.text += decoder.decode(bytes);
    } catch {
      // A stream that breaks is one of the things to see.
    }
    return eventsOf(state.text);
  };
  return { runId: answer.headers.get("x-loophub-run") ?? "", state, done: read() };
}

/** The events of a hub stream. */
export const eventsOf = (text: string): SequencedEvent[] =>
  [...text.matchAll(/^id: (\d+)\ndata: (.*)\n\n/gm)].map(([, seq, data]) => ({
    seq: Number(seq),
    event: JSON.parse(data ?? "") as HubEvent,
  }));

/** All text of a run. */
export const textOf = (events: readonly SequencedEvent[]): string =>
  events.map(({ event }) => event.type === "text-delta" ? event.delta : "").join("");
