import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { type ApiRoute, pathOf, routesOf, strangerOf } from "../support/api_routes.ts";
import { answer, PAY, start, startTill, untilWaiting } from "../support/approvals_rig.ts";
import { startAsking } from "../support/asking_server.ts";
import {
  chatCompletion,
  chatStream,
  type RecordedRequest,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, type TestHub, withHub } from "../support/test_hub.ts";
import { scripted } from "../mcp/rig.ts";

/** In every text of the tenant whose rows are looked for. */
const CANARY = "canary-of-the-first-tenant";

/** Routes with an id in their path that finds the same for all tenants, and why. */
const SHARED: readonly [prefix: RegExp, why: string][] = [
  [/^\/v1\/models\//, "models of the configuration"],
  [/^\/v1\/agents\//, "agents of the configuration"],
  [/^\/v1\/(admin\/mcp\/\{server\}|mcp)\//, "MCP servers of the configuration, by their names"],
  [
    /^\/v1\/(videos|files|uploads|batches|vector_stores|fine_tuning)\//,
    "what a provider's account holds is everybody's who has a key: docs/security.md",
  ],
];
const isShared = ({ pattern }: ApiRoute) => SHARED.some(([prefix]) => prefix.test(pattern));

/** Bodies that the routes take; those that are not here want none. */
const BODIES: Readonly<Record<string, JsonObject>> = {
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
/** Answers that are not 404, for any id: by the beginning of a route. */
const OTHERWISE: readonly [route: RegExp, status: number, why: string][] = [
  [/^GET \/api\/chat\/\{id\}\/messages/, 200, "a chat that nobody has begun is empty"],
  [/^GET \/api\/chat\/\{id\}\/stream/, 204, "and nothing runs in it"],
  [/ \/v1\/admin\/(providers|mcp)\/\{\w+\}/, 403, "the hub's own tenant manages them"],
];
/** Without an end. */
const STREAMS = ["/mcp", "/mcp/sse"];

/** What the first tenant has: by the beginning of a pattern, the longest that fits, what stands for its parameters. */
type Owned = Record<string, Record<string, string>>;

function valuesFor(owned: Owned, pattern: string): Record<string, string> {
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

/** Makes one of each thing that has an id. */
async function fill(hub: TestHub): Promise<Owned> {
  const post = async (path: string, body: JsonObject) => {
    const made = await hub.call(path, { body });
    assert.ok(made.ok, `${path}: ${made.status}`);
    return await made.json();
  };
  const name = CANARY;
  const { key } = await post("/v1/admin/keys", { name });
  const provider = await post("/v1/admin/providers", {
    name: "stored",
    kind: "openai-compatible",
    baseUrl: "https://example.com/v1",
    apiKey: "sk-stored-of-the-first",
  });
  const response = await post("/v1/responses", { model: "one/m", input: CANARY });

  const paid = await start(hub, { text: "pay" });
  const [asked] = await untilWaiting(hub, paid.runId);
  await answer(hub, paid.runId, asked.id, { approved: true, remember: "session" });
  await paid.stream;
  const { grants } = await (await hub.call("/v1/approvals/grants")).json();

  const pays = await start(hub, { text: "pay" });
  const [approval] = await untilWaiting(hub, pays.runId);
  const plans = await start(hub, { text: "plan", preflight: true });
  await untilWaiting(hub, plans.runId).catch(() => {});
  const paints = await start(hub, { text: "paint" });
  const question = await eventually(async () => {
    const shown = await (await hub.call(`/v1/runs/${paints.runId}/questions`)).json();
    return shown.questions[0];
  });
  const sings = await start(hub, { text: "sing" });
  const [, sha256 = ""] = /\/files\/([0-9a-f]{64})/.exec(await sings.stream) ?? [];

  const chat = "chat-of-the-first";
  const messages = [{ id: "m1", role: "user", parts: [{ type: "text", text: "pay" }] }];
  const chatting = await hub.call("/api/chat", { body: { id: chat, messages } });
  for (const stream of [pays.stream, plans.stream, paints.stream]) stream.catch(() => {});
  const begun = chatting.text();
  begun.catch(() => {});
  await eventually(async () => {
    const { approvals } = await (await hub.call("/v1/approvals?status=pending")).json();
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

Deno.test("a key of another tenant finds nothing of this one, by any id, on any route", async (t) => {
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
      const owned = await fill(hub);
      const routes = await routesOf(hub);
      const stranger = { authorization: `Bearer ${await strangerOf(hub)}` };
      const ask = async ({ method, pattern }: ApiRoute, headers: Record<string, string> = {}) => {
        const values = valuesFor(owned, pattern);
        const path = pathOf(pattern, (name) => {
          assert.ok(values[name], `Say what of the first tenant ${name} of ${pattern} is`);
          return encodeURIComponent(values[name] ?? "");
        });
        const body = BODIES[`${method} ${pattern}`];
        const asked = await hub.call(path, {
          method,
          headers,
          ...(body === undefined ? {} : { body }),
        });
        return { status: asked.status, text: await asked.text() };
      };
      const ids = Object.values(owned).flatMap((values) => Object.values(values));
      const texts = [CANARY, ...ids.filter((id) => id !== "peer")];
      const assertBlind = (text: string, where: string) => {
        for (const word of texts) assert.ok(!text.includes(word), `${where}: ${word}: ${text}`);
      };
      const byId = routes.filter((route) => route.pattern.includes("{") && !isShared(route));
      assert.ok(byId.length >= 30, String(byId.length));
      const before = upstream.requests.length;

      await t.step("what has an id", async () => {
        for (const route of byId) {
          const { status, text } = await ask(route, stranger);
          const name = `${route.method} ${route.pattern}`;
          const [, wanted = 404] = OTHERWISE.find(([one]) => one.test(name)) ?? [];
          assert.equal(status, wanted, `${name}: ${text}`);
          assert.ok(!text.includes(CANARY), `${name}: ${text}`);
        }
      });

      await t.step("lists, and what all tenants share", async () => {
        for (const route of routes) {
          const { method, pattern } = route;
          if (method !== "GET" || byId.includes(route) || STREAMS.includes(pattern)) continue;
          const names = { server: "peer", name: "peer", id: "default" };
          const path = pathOf(pattern, (name) => names[name as keyof typeof names] ?? "x");
          const listed = await hub.call(path, { headers: stranger });
          assertBlind(await listed.text(), `${method} ${pattern}`);
        }
      });

      await t.step("ids in bodies and queries", async () => {
        const { id } = owned["/v1/responses/{id}"] ?? {};
        const response = { model: "one/m", input: "Hi", previous_response_id: id ?? "" };
        const answered = await hub.call("/v1/responses", { body: response, headers: stranger });
        assert.ok([400, 404].includes(answered.status), String(answered.status));
        assert.ok(!(await answered.text()).includes(CANARY));
        for (const list of ["/v1/sessions", "/v1/approvals", "/v1/admin/keys", "/v1/admin/audit"]) {
          const { nextCursor: next } = await (await hub.call(`${list}?limit=1`)).json();
          assert.ok(next, list);
          const path = `${list}?after=${encodeURIComponent(next)}`;
          assertBlind(await (await hub.call(path, { headers: stranger })).text(), path);
        }
      });

      assert.equal(upstream.requests.length, before);
      await t.step("its owner has it all, as it was", async () => {
        for (const route of byId.filter(({ method }) => method === "GET")) {
          if (route.pattern.endsWith("/stream")) continue;
          const { status, text } = await ask(route);
          assert.equal(status, 200, `${route.pattern}: ${text}`);
        }
        const { approvals } = JSON.parse(
          (await ask({
            method: "GET",
            pattern: "/v1/runs/{id}/approvals",
            operation: { responses: {} },
          })).text,
        );
        assert.equal(approvals[0].state, "pending");
        assert.deepEqual(till.paid, ["1"]);
      });
    });
  } finally {
    await upstream.stop();
    await till.stop();
    await asking.stop();
  }
});
