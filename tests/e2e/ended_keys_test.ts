import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { logOf } from "../support/log_of.ts";
import { PAY, runOf, start, untilWaiting } from "../support/approvals_rig.ts";
import { connectMcp } from "../support/mcp_clients.ts";
import { withKey } from "../support/owned_things.ts";
import {
  chatStream,
  type Reply,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, type TestHub, withHub, withReplicas } from "../support/test_hub.ts";

const never: Reply = { before: [{ wait: new Promise(() => {}) }], body: "" };
const half = chatStream({ text: "one two three", endAfter: 3, end: "stall" });
const calls = (name: string, input: JsonObject) =>
  chatStream({ toolCalls: [{ name, arguments: input }] });

const configOf = (upstream: ScriptedUpstream) => ({
  providers: { one: { baseUrl: upstream.url, apiKey: "sk-up" } },
  defaultModel: "one/m",
  operations: { modules: [PAY] },
  agents: {
    default: { tools: ["hub.wait", "test.pay"] },
    boss: { tools: [], agents: ["default"] },
  },
  runs: { approvalTimeoutMs: 600_000 },
});

async function newKey(hub: TestHub, body: JsonObject = {}) {
  const made = await (await hub.call("/v1/admin/keys", { body: { name: "k", ...body } })).json();
  const keyId: string = made.key.id;
  return {
    hub: withKey(hub, made.token),
    keyId,
    revoke: (by: TestHub) => by.call(`/v1/admin/keys/${keyId}/revoke`, { method: "POST" }),
    expire: (by: TestHub) =>
      by.call(`/v1/admin/keys/${keyId}`, {
        method: "PATCH",
        body: { expiresAt: new Date(Date.now() - 1000).toISOString() },
      }),
  };
}

/** Begins a run whose own stream breaks off with its key. */
async function begin(hub: TestHub, body: JsonObject = {}) {
  const { stream, ...run } = await start(hub, body);
  stream.catch(() => {});
  return run;
}

/** Waits for the end of the run, and checks that its log and its row say why. */
async function assertStopped(hub: TestHub, runId: string, why: RegExp) {
  const run = await eventually(async () => {
    const now = await runOf(hub, runId);
    return now.finishedAt === null ? null : now;
  });
  assert.equal(run.status, "cancelled");
  const text = await (await hub.call(`/v1/runs/${runId}/stream`)).text();
  const abort = logOf(text).find(({ event }) => event.type === "abort")?.event;
  assert.match(abort?.type === "abort" ? abort.reason : "no abort", why);
}

Deno.test("a run ends with its key: told to another replica, in the middle of a call or a tool", async (t) => {
  const upstream = await startScriptedUpstream();
  try {
    await withReplicas([configOf(upstream), configOf(upstream)], async (first, second) => {
      for (const how of ["revoke", "expire"] as const) {
        const why = how === "revoke" ? /its API key was revoked/ : /its API key has expired/;

        await t.step(`${how}: a model call is cut`, async () => {
          upstream.script(() => half);
          const cut = upstream.closedByClient.length;
          const key = await newKey(first);
          const run = await begin(key.hub);
          const watching = (await second.call(`/v1/runs/${run.runId}/stream`)).text();
          assert.equal((await key[how](second)).status, 200);
          await assertStopped(second, run.runId, why);
          await upstream.until(() => upstream.closedByClient.length > cut);
          // The stream of the key that has ended breaks off; another key's goes on to the end of the run.
          assert.match(await watching, /"type":"finish"/);
        });

        await t.step(`${how}: a tool is cancelled, and no model asked again`, async () => {
          upstream.script(() => calls("hub_wait", { seconds: 60 }));
          const key = await newKey(first);
          const run = await begin(key.hub);
          const { length } = await eventually(() =>
            upstream.requests.length > 0 ? upstream.requests : null
          );
          await eventually(async () => {
            const { rows } = await callsOf(first, run.runId);
            return rows > 0 ? true : null;
          });
          await key[how](second);
          await assertStopped(first, run.runId, why);
          assert.equal(upstream.requests.length, length);
        });

        await t.step(`${how}: runs that were asked for end too`, async () => {
          upstream.script((request) =>
            JSON.stringify(request.json["tools"] ?? []).includes("agents_default")
              ? calls("agents_default", { prompt: "Do it" })
              : never
          );
          const asked = upstream.requests.length;
          const key = await newKey(first);
          const { id } = await (await key.hub.call("/v1/sessions", { body: { agent: "boss" } }))
            .json();
          const run = await begin(key.hub, { session: id });
          await upstream.until(() => upstream.requests.length === asked + 2);
          const below = await first.hub.start.db.read<{ id: string }[]>`
            select 'run_' || replace(run_id::text, '-', '') as id from hub.runs
            where parent_run_id is not null order by created_at desc limit 1`;
          await key[how](second);
          await assertStopped(first, run.runId, why);
          await assertStopped(second, below[0]?.id ?? "", /API key|was stopped/);
        });

        await t.step(`${how}: a run that waits for people waits no more`, async () => {
          upstream.script(() => calls("test_pay", { url: "http://127.0.0.1:9/", amount: 1 }));
          const key = await newKey(first);
          const run = await begin(key.hub);
          const [approval] = await untilWaiting(first, run.runId);
          await key[how](second);
          await assertStopped(second, run.runId, why);
          const late = await first.call(`/v1/runs/${run.runId}/approvals/${approval.id}`, {
            body: { approved: true },
          });
          assert.equal(late.status, 409);
          assert.equal((await late.json()).error.code, "approval_cancelled");
        });

        await t.step(`${how}: a background response is cancelled`, async () => {
          upstream.script(() => half);
          const cut = upstream.closedByClient.length;
          const key = await newKey(first);
          const body = { model: "one/m", input: "Hi", background: true };
          const { id } = await (await key.hub.call("/v1/responses", { body })).json();
          const asked = upstream.requests.length;
          await upstream.until(() => upstream.requests.length >= asked);
          await key[how](second);
          await upstream.until(() => upstream.closedByClient.length > cut);
          const state = await eventually(async () => {
            const { status } = await (await second.call(`/v1/responses/${id}`)).json();
            return status === "in_progress" || status === "queued" ? null : status;
          });
          assert.equal(state, "cancelled");
        });

        await t.step(`${how}: open requests are given up`, async () => {
          const key = await newKey(first);
          const messages = [{ role: "user", content: "Hi" }];
          const ask = (stream: boolean) =>
            key.hub.call("/v1/chat/completions", { body: { model: "one/m", messages, stream } });
          const cut = upstream.closedByClient.length;
          upstream.script(() => half);
          const streaming = await ask(true);
          assert.equal(streaming.status, 200);
          upstream.script(() => never);
          const asked = upstream.requests.length;
          const waiting = ask(false);
          await upstream.until(() => upstream.requests.length > asked);
          await key[how](second);
          await assert.rejects(streaming.text());
          const refused = await waiting;
          assert.equal(refused.status, 401);
          assert.equal((await refused.json()).error.code, "invalid_api_key");
          await upstream.until(() => upstream.closedByClient.length === cut + 2);
        });

        await t.step(`${how}: MCP connections are closed`, async () => {
          const key = await newKey(first);
          const client = await connectMcp("v2 websocket", key.hub);
          assert.ok((await client.tools()).length > 0);
          await key[how](second);
          const closed = eventually(async () => {
            await client.tools();
            return null;
          });
          await assert.rejects(closed, (error) => !String(error).includes("did not happen"));
          await client.close().catch(() => {});
        });
      }
    });
  } finally {
    await upstream.stop();
  }
});

Deno.test("a key that ends without NOTIFY ends its runs on the other replica too, and may end itself", async () => {
  const upstream = await startScriptedUpstream(() => half);
  const config = { ...configOf(upstream), database: { notify: false } };
  try {
    await withReplicas([config, config], async (first, second) => {
      const key = await newKey(first);
      const run = await begin(key.hub);
      assert.equal((await key.revoke(second)).status, 200);
      await assertStopped(second, run.runId, /its API key was revoked/);
      const admin = await newKey(first, { role: "admin" });
      assert.equal((await admin.revoke(admin.hub)).status, 200);
      assert.equal((await admin.hub.call("/v1/sessions")).status, 401);
    });
  } finally {
    await upstream.stop();
  }
});

/** How many calls of the run have begun. */
async function callsOf(hub: TestHub, runId: string): Promise<{ rows: number }> {
  const [row] = await hub.hub.start.db.read<{ rows: number }[]>`
    select count(*)::int as rows from hub.tool_calls
    where 'run_' || replace(run_id::text, '-', '') = ${runId} and started_at is not null`;
  return row ?? { rows: 0 };
}

Deno.test("a message that waits for a busy chat is not said when its key has ended", async () => {
  const upstream = await startScriptedUpstream(() => half);
  try {
    await withHub(configOf(upstream), async (hub) => {
      const sibling = await newKey(hub, { owner: "alice" });
      const key = await newKey(hub, { owner: "alice" });
      const post = (one: TestHub, id: string) =>
        one.call("/api/chat", {
          body: {
            id: "chat",
            messages: [{ id, role: "user", parts: [{ type: "text", text: id }] }],
          },
        });
      const first = await post(sibling.hub, "m1");
      assert.equal(first.status, 200);
      await upstream.until(() => upstream.requests.length === 1);
      const queued = await post(key.hub, "m2");
      assert.equal(queued.status, 200);
      const broken = assert.rejects(queued.text());
      await key.revoke(hub);
      await broken;
      // The other key's run goes on until it is stopped; then the turn of the message would have come.
      assert.equal((await sibling.hub.call("/api/chat/chat/stop", { method: "POST" })).status, 202);
      await first.text();
      const third = post(sibling.hub, "m3");
      await upstream.until(() => upstream.requests.length === 2);
      assert.match(JSON.stringify(upstream.requests[1]?.json), /m3/);
      const { data: messages } = await (await sibling.hub.call("/api/chat/chat/messages")).json();
      const said = messages.filter(({ role }: { role: string }) => role === "user");
      assert.deepEqual(said.map(({ id }: { id: string }) => id), ["m1", "m3"]);
      await sibling.hub.call("/api/chat/chat/stop", { method: "POST" });
      await (await third).text();
    });
  } finally {
    await upstream.stop();
  }
});

Deno.test("a key expires in the middle of its run, in its moment", async () => {
  const upstream = await startScriptedUpstream(() => half);
  try {
    await withHub(configOf(upstream), async (hub) => {
      const key = await newKey(hub, { expiresAt: new Date(Date.now() + 3000).toISOString() });
      const run = await begin(key.hub);
      await assertStopped(hub, run.runId, /its API key has expired/);
    });
  } finally {
    await upstream.stop();
  }
});

Deno.test("a run whose key was revoked while no hub was there is not taken up again", async () => {
  const upstream = await startScriptedUpstream(() => half);
  try {
    await withHub(configOf(upstream), async (hub) => {
      const key = await newKey(hub);
      const run = await begin(key.hub);
      const { db } = hub.hub.start;
      await db.control`update hub.api_keys set revoked_at = now() where name = 'k'`;
      await hub.hub.leave();
      const next = await hub.restart();
      const asked = upstream.requests.length;
      await assertStopped(next, run.runId, /its API key was revoked/);
      assert.equal(upstream.requests.length, asked);
    });
  } finally {
    await upstream.stop();
  }
});
