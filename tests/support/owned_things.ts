import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { scripted } from "../mcp/rig.ts";
import { type ApiRoute, pathOf } from "./api_routes.ts";
import { answer, PAY, start, startTill, untilWaiting } from "./approvals_rig.ts";
import { startAsking } from "./asking_server.ts";
import {
  chatCompletion,
  chatStream,
  type RecordedRequest,
  startScriptedUpstream,
} from "./scripted_upstream.ts";
import { eventually, type TestHub, withHub } from "./test_hub.ts";

/** In every text of the key that made the things that other keys look for. */
export const CANARY = "canary-of-the-maker";

/** Routes with an id in their path that finds the same for all keys, and why. */
const SHARED: readonly [prefix: RegExp, why: string][] = [
  [/^\/v1\/models\//, "models of the configuration"],
  [/^\/v1\/agents\//, "agents of the configuration"],
  [/^\/v1\/(admin\/mcp\/\{server\}|mcp)\//, "MCP servers of the configuration, by their names"],
  [
    /^\/v1\/(videos|files|uploads|batches|vector_stores|fine_tuning)\//,
    "what a provider's account holds is everybody's who has a key: docs/security.md",
  ],
];
export const isShared = ({ pattern }: ApiRoute) => SHARED.some(([prefix]) => prefix.test(pattern));

/** Bodies that the routes take; those that are not here want none. */
export const BODIES: Readonly<Record<string, JsonObject>> = {
  "PATCH /v1/sessions/{id}": { title: "mine" },
  "POST /v1/sessions/{id}/messages": { text: "Hi" },
  "POST /v1/runs/{id}/steer": { text: "Hi" },
  "POST /v1/runs/{id}/approvals/{approvalId}": { approved: true },
  "POST /v1/runs/{id}/questions/{questionId}": { action: "accept", content: { colour: "red" } },
  "POST /v1/runs/{id}/preflight": { approved: true },
  "PATCH /v1/admin/keys/{id}": { name: "mine" },
  "POST /v1/admin/keys/{id}/rotate": {},
  "POST /v1/admin/mcp/{name}/approve": { hashes: ["0".repeat(64)] },
  "PATCH /v1/admin/providers/{id}": { maxRetries: 1 },
  "POST /v1/admin/providers/{id}/rotate": { apiKey: "sk-mine" },
};
/** What the maker has: by the beginning of a pattern, the longest that fits, what stands for its parameters. */
export type Owned = Record<string, Record<string, string>>;

export function valuesFor(owned: Owned, pattern: string): Record<string, string> {
  const [prefix = ""] = Object.keys(owned).filter((one) => pattern.startsWith(one))
    .sort((one, other) => other.length - one.length);
  return owned[prefix] ?? {};
}

const one = (name: string, input: JsonObject = {}) =>
  chatStream({ toolCalls: [{ name, arguments: input }] });

/** An agent that does what the last words of its user name. */
function reply(request: RecordedRequest, url: string) {
  if (request.json["stream"] !== true) return chatCompletion({ text: CANARY });
  const last = request.messages.at(-1);
  if (last?.role === "tool") return chatStream({ text: `${CANARY} done` });
  const said = JSON.stringify(last?.content);
  if (said.includes("pay")) return one("test_pay", { url, amount: 1 });
  if (said.includes("paint")) return one("peer__paint");
  if (said.includes("sing")) return one("rich__sing");
  if (request.json["tool_choice"] !== undefined && said.includes("plan")) {
    return one("hub_propose_plan", { steps: [{ tool: "test_pay", purpose: CANARY }] });
  }
  return chatStream({ text: CANARY });
}

/** The hub as the holder of another key calls it. */
export function withKey<H extends TestHub>(hub: H, key: string): H {
  return {
    ...hub,
    key,
    call: (path, { headers, ...options } = {}) =>
      hub.call(path, { ...options, headers: { authorization: `Bearer ${key}`, ...headers } }),
  };
}

/** Makes one of each thing that has an id: what only admin keys may make by the hub's first key, all else by `hub`. */
export async function fill(admin: TestHub, hub: TestHub = admin): Promise<Owned> {
  const post = async (path: string, body: JsonObject) => {
    const by = path.startsWith("/v1/admin/") ? admin : hub;
    const made = await by.call(path, { body });
    assert.ok(made.ok, `${path}: ${made.status}`);
    return await made.json();
  };
  const name = CANARY;
  const { key } = await post("/v1/admin/keys", { name });
  const provider = await post("/v1/admin/providers", {
    name: "stored",
    kind: "openai-compatible",
    baseUrl: "https://example.com/v1",
    apiKey: "sk-stored-of-the-maker",
  });
  const response = await post("/v1/responses", { model: "one/m", input: CANARY });

  const paid = await start(hub, { text: "pay" });
  const [asked] = await untilWaiting(hub, paid.runId);
  await answer(hub, paid.runId, asked.id, { approved: true, remember: "session" });
  await paid.stream;
  const { data: grants } = await (await hub.call("/v1/approvals/grants")).json();

  const pays = await start(hub, { text: "pay" });
  const [approval] = await untilWaiting(hub, pays.runId);
  const plans = await start(hub, { text: "plan", preflight: true });
  await untilWaiting(hub, plans.runId).catch(() => {});
  const paints = await start(hub, { text: "paint" });
  const question = await eventually(async () => {
    const shown = await (await hub.call(`/v1/runs/${paints.runId}/questions`)).json();
    return shown.data[0];
  });
  const sings = await start(hub, { text: "sing" });
  const [, sha256 = ""] = /\/files\/([0-9a-f]{64})/.exec(await sings.stream) ?? [];

  const chat = "chat-of-the-maker";
  const messages = [{ id: "m1", role: "user", parts: [{ type: "text", text: "pay" }] }];
  const chatting = await hub.call("/api/chat", { body: { id: chat, messages } });
  for (const stream of [pays.stream, plans.stream, paints.stream]) stream.catch(() => {});
  const begun = chatting.text();
  begun.catch(() => {});
  await eventually(async () => {
    const { data: approvals } = await (await admin.call("/v1/approvals?status=pending")).json();
    return approvals.length > 1 ? true : null;
  });
  return {
    "/v1/sessions/{id}": { id: sings.session, sha256 },
    "/v1/runs/{id}": { id: pays.runId, approvalId: approval.id },
    "/v1/runs/{id}/preflight": { id: plans.runId },
    "/v1/runs/{id}/questions": { id: paints.runId, questionId: question.id },
    "/v1/approvals/grants/{id}": { id: grants[0].id },
    "/v1/responses/{id}": { id: response.id },
    "/v1/admin/keys/{id}": { id: key.id },
    "/v1/admin/providers/{id}": { id: provider.provider?.id ?? provider.id },
    "/v1/admin/mcp/{name}": { name: "peer" },
    "/api/chat/{id}": { id: chat },
  };
}

/** The path of a route by what the maker has, for `fetch`. */
export function ownedPath(owned: Owned, pattern: string): string {
  const values = valuesFor(owned, pattern);
  return pathOf(pattern, (name) => {
    assert.ok(values[name], `Say what of the maker ${name} of ${pattern} is`);
    return encodeURIComponent(values[name] ?? "");
  });
}

/** Asks a route by what the maker has. */
export async function askOwned(
  hub: TestHub,
  owned: Owned,
  { method, pattern }: Pick<ApiRoute, "method" | "pattern">,
): Promise<{ status: number; text: string }> {
  const body = BODIES[`${method} ${pattern}`];
  const asked = await hub.call(ownedPath(owned, pattern), {
    method,
    ...(body === undefined ? {} : { body }),
  });
  return { status: asked.status, text: await asked.text() };
}

/** A hub whose agent makes things of all kinds, with what they happen at. */
export async function withMaker(
  body: (
    hub: Parameters<Parameters<typeof withHub>[1]>[0],
    facts: { requests: RecordedRequest[]; paid: string[] },
  ) => Promise<void>,
): Promise<void> {
  const upstream = await startScriptedUpstream();
  const till = startTill();
  const asking = startAsking("legacy");
  const sound = { type: "audio", data: "AAECAw==", mimeType: "audio/wav" };
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    operations: { modules: [PAY] },
    agents: { default: { tools: ["test.*", "*__*"] } },
    mcpServers: {
      peer: { url: asking.url },
      rich: scripted({ tools: [{ name: "sing" }], results: { sing: { content: [sound] } } }),
    },
    runs: { approvalTimeoutMs: 600_000, questionTimeoutMs: 600_000 },
  };
  upstream.script((request) => reply(request, till.url));
  try {
    await withHub(config, async (hub) => {
      await hub.hub.mcp.settled(60_000);
      await body(hub, { requests: upstream.requests, paid: till.paid });
    });
  } finally {
    await upstream.stop();
    await till.stop();
    await asking.stop();
  }
}
