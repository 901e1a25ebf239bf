import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { type OAuthServer, startOAuthServer } from "../support/oauth_server.ts";
import { connectMcp } from "../support/mcp_clients.ts";
import { startTestPostgres, SWITCHES } from "../support/postgres.ts";
import { createRawLog } from "../support/providers_rig.ts";
import {
  chatStream,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, startTestHub, type TestHub } from "../support/test_hub.ts";

interface Rig {
  first: TestHub;
  second: TestHub;
  upstream: ScriptedUpstream;
  server: OAuthServer;
  /** Answers of the hub, for a look for secrets. */
  said: string[];
}

interface User {
  name: string;
  key: string;
}

async function withRig(body: (rig: Rig) => Promise<void>): Promise<void> {
  const postgres = await startTestPostgres({ migrated: false });
  const dataDir = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-hub-" });
  const upstream = await startScriptedUpstream();
  const server = startOAuthServer();
  const logs = [createRawLog(), createRawLog()];
  const config = {
    providers: { one: { baseUrl: upstream.url, apiKey: "sk-upstream" } },
    defaultModel: "one/m",
    agents: { default: { tools: ["*__*"] } },
    mcpServers: { guarded: { url: server.url } },
  };
  const start = (log: typeof logs[number] | undefined, key?: string) =>
    startTestHub(config, {
      databaseUrl: postgres.url,
      dataDir,
      ...log === undefined ? {} : { log: log.log },
      ...key === undefined ? {} : { key },
    });
  const first = await start(logs[0]);
  const second = await start(logs[1], first.key);
  const said: string[] = [];
  try {
    await body({ first, second, upstream, server, said });
    const { db } = first.hub.start;
    const tables = await db.within(db.read<{ name: string }[]>`
      select relname as name from pg_class
      where relnamespace = 'hub'::regnamespace and relkind = 'r'`);
    const rows = [];
    for (const { name } of tables) {
      rows.push(
        JSON.stringify(await db.within(db.read.unsafe(`select t::text from hub.${name} t`))),
      );
    }
    const places = {
      logs: logs.map(({ lines }) => lines.join("\n")).join("\n"),
      answers: said.join("\n"),
      rows: rows.join("\n"),
      prompts: JSON.stringify(upstream.requests.map(({ json }) => json)),
    };
    for (const [place, text] of Object.entries(places)) {
      for (const secret of server.secrets) {
        assert.ok(!text.includes(secret), `a secret in ${place}`);
      }
    }
    const seen = server.headers.join("\n");
    for (const { key } of [first, { key: "sk-upstream" }]) {
      assert.ok(!seen.includes(key), "a key of the hub at the MCP server");
    }
  } finally {
    await second.close();
    await first.close();
    await upstream.stop();
    await server.stop();
    await postgres.stop();
    await Deno.remove(dataDir, { recursive: true });
  }
}

async function call(
  { said }: Rig,
  hub: TestHub,
  { key, path, method = "GET" }: { key: string; path: string; method?: string },
): Promise<{ status: number; value: JsonObject }> {
  const answer = await hub.call(path, { method, headers: { authorization: `Bearer ${key}` } });
  const text = await answer.text();
  said.push(text);
  return { status: answer.status, value: text === "" ? {} : JSON.parse(text) as JsonObject };
}

async function createUser(hub: TestHub, name: string): Promise<User> {
  const answer = await hub.call("/v1/admin/keys", { body: { name } });
  assert.equal(answer.status, 201);
  return { name, key: (await answer.json()).token };
}

/** Authorizes as a person in a browser does, at the hub that the browser happens to come back to. */
async function authorize(
  rig: Rig,
  hub: TestHub,
  { name, key, path = "/v1/mcp/guarded/authorize" }: User & { path?: string },
): Promise<void> {
  const begun = await call(rig, hub, { key, path, method: "POST" });
  assert.equal(begun.status, 200, JSON.stringify(begun.value));
  const back = await rig.server.approve(String(begun.value["url"]), name);
  assert.equal(back.origin, hub.url);
  const answer = await fetch(back);
  const text = await answer.text();
  rig.said.push(text);
  assert.equal(answer.status, 200, text);
  assert.equal(answer.headers.get("referrer-policy"), "no-referrer");
  assert.equal(answer.headers.get("cache-control"), "no-store");
}

/** Runs an agent that asks the server who it is; gives its tools, and what came of the call. */
async function run(
  { upstream, said }: Rig,
  hub: TestHub,
  { name, key }: User,
): Promise<{ tools: string[]; text: string }> {
  const headers = { authorization: `Bearer ${key}` };
  const session = await (await hub.call("/v1/sessions", { body: {}, headers })).json();
  const marker = `I am ${name} ${crypto.randomUUID()}`;
  const answer = await hub.call(`/v1/sessions/${session.id}/messages`, {
    body: { text: marker },
    headers,
  });
  const text = await answer.text();
  said.push(text);
  const sent = upstream.requests.map(({ json }) =>
    json as unknown as {
      tools?: { function: { name: string } }[];
    }
  ).find((json) => JSON.stringify(json).includes(marker));
  return { tools: (sent?.tools ?? []).map((tool) => tool.function.name).toSorted(), text };
}

function callWhoami(upstream: ScriptedUpstream): void {
  upstream.script((request) => {
    const { messages, tools = [] } = request.json as unknown as {
      messages: { role: string }[];
      tools?: unknown[];
    };
    if (tools.length === 0 || messages.at(-1)?.role === "tool") {
      return chatStream({ text: "Done." });
    }
    return chatStream({ toolCalls: [{ name: "guarded__whoami", arguments: {} }] });
  });
}

Deno.test("each key has its own tokens and tools at an MCP server, on two hubs; what is refused side by side is refreshed once", async () => {
  await withRig(async (rig) => {
    const { first, second, upstream, server } = rig;
    callWhoami(upstream);
    const ada = await createUser(first, "ada");
    const bob = await createUser(first, "bob");
    const eve = await createUser(first, "eve");
    await eventually(() => first.hub.mcp.connections[0]?.state.kind === "needs_auth" || null);
    const state = await call(rig, first, { key: ada.key, path: "/v1/mcp/guarded/authorize" });
    assert.equal(state.value["state"], "none");
    await authorize(rig, first, ada);
    await authorize(rig, second, bob);
    for (const hub of [first, second]) {
      const [one, two, none] = await Promise.all(
        [ada, bob, eve].map((user) => run(rig, hub, user)),
      );
      assert.deepEqual(one?.tools, ["guarded__secret_of_ada", "guarded__whoami"]);
      assert.match(one?.text ?? "", /"ada"/);
      assert.deepEqual(two?.tools, ["guarded__secret_of_bob", "guarded__whoami"]);
      assert.match(two?.text ?? "", /"bob"/);
      assert.deepEqual(none?.tools, []);
    }

    const { refreshes } = server.counts;
    server.expireAll();
    const held = Promise.withResolvers<void>();
    server.switches.beforeRefresh = () => held.promise;
    const before = server.counts.unauthorized;
    const running = [first, second, first, second].map((hub) => run(rig, hub, ada));
    // One of each replica at least has been refused before anybody gets an answer.
    await eventually(() => server.counts.unauthorized - before >= 4 || null);
    held.resolve();
    for (const { text } of await Promise.all(running)) assert.match(text, /"ada"/);
    assert.equal(server.counts.refreshes, refreshes + 1);

    await authorize(rig, first, {
      name: "operator",
      key: first.key,
      path: "/v1/admin/mcp/guarded/authorize",
    });
    assert.match((await run(rig, second, eve)).text, /"operator"/);
    assert.match((await run(rig, second, ada)).text, /"ada"/);
    const refused = await call(rig, first, {
      key: eve.key,
      path: "/v1/admin/mcp/guarded/authorize",
      method: "POST",
    });
    assert.equal(refused.status, 403);
  });
});

Deno.test("an owner's list of tools stands in nobody else's answers, and not in what is kept of the server", async () => {
  await withRig(async (rig) => {
    const { first, second, upstream } = rig;
    callWhoami(upstream);
    const ada = await createUser(first, "ada");
    const eve = await createUser(first, "eve");
    const kept = async (hub: TestHub) => {
      const { db } = hub.hub.start;
      return await db.within(db.read<{ names: string }[]>`
        select jsonb_path_query_array(tools, '$[*].name')::text as names
        from hub.mcp_catalogues where server = 'guarded'`);
    };
    const shown = async (hub: TestHub) => {
      const { value } = await call(rig, hub, { key: hub.key, path: "/v1/admin/mcp" });
      return JSON.stringify(value);
    };
    await authorize(rig, first, ada);
    assert.match((await run(rig, first, ada)).text, /"ada"/);
    assert.deepEqual((await run(rig, first, eve)).tools, []);
    assert.equal((await kept(first)).length, 0);
    assert.doesNotMatch(await shown(first), /of_ada/);

    const path = "/v1/admin/mcp/guarded/authorize";
    await authorize(rig, first, { name: "operator", key: first.key, path });
    const operators = ["guarded__secret_of_operator", "guarded__whoami"];
    for (const hub of [first, second]) {
      assert.deepEqual((await run(rig, hub, eve)).tools, operators);
      assert.match((await run(rig, hub, ada)).text, /"ada"/);
      assert.doesNotMatch(await shown(hub), /of_ada/);
    }
    await eventually(async () => {
      const [row] = await kept(first);
      return row?.names === '["whoami", "secret_of_operator"]' || null;
    });

    const gone = await call(rig, first, { key: first.key, path, method: "DELETE" });
    assert.equal(gone.status, 204);
    assert.deepEqual(first.hub.mcp.tools, []);
    assert.doesNotMatch(await shown(first), /of_operator/);
    for (const hub of [first, second]) {
      assert.deepEqual((await run(rig, hub, eve)).tools, []);
      assert.match((await run(rig, hub, ada)).text, /"ada"/);
    }
    await eventually(async () => (await kept(first))[0]?.names === "[]" || null);
  });
});

Deno.test({
  name: "who has authorized hears of other tools at every replica that it follows them at",
  ignore: !SWITCHES.notify,
  fn: async () => {
    await withRig(async (rig) => {
      const { first, second } = rig;
      const ada = await createUser(first, "ada");
      await eventually(async () => {
        const text = await (await second.call("/metrics")).text();
        return text.includes("loophub_listener_up 1") || null;
      });
      await eventually(() => second.hub.mcp.connections[0]?.state.kind === "needs_auth" || null);
      const client = await connectMcp("v1", { url: second.url, key: ada.key });
      const count = async () =>
        (await client.tools()).filter(({ name }) => name.startsWith("guarded__")).length;
      assert.equal(await count(), 0);
      await authorize(rig, first, ada);
      await eventually(() => client.changes.count > 0 || null);
      assert.equal(await count(), 2);
      await client.close();

      const path = "/v1/admin/mcp/guarded/authorize";
      await authorize(rig, first, { name: "operator", key: first.key, path });
      await eventually(() => second.hub.mcp.connections[0]?.state.kind === "ready" || null);
    });
  },
});

Deno.test("a refresh that is refused tells the run what to do, and an authorization mends it", async () => {
  await withRig(async (rig) => {
    const { first, second, upstream, server } = rig;
    callWhoami(upstream);
    const ada = await createUser(first, "ada");
    await authorize(rig, first, ada);
    assert.match((await run(rig, first, ada)).text, /"ada"/);
    server.revoke("ada");
    for (let round = 0; round < 3; round++) {
      assert.match((await run(rig, first, ada)).text, /POST \/v1\/mcp\/guarded\/authorize/);
    }
    assert.equal(server.counts.refreshes, 1);
    const path = "/v1/mcp/guarded/authorize";
    const shown = await call(rig, second, { key: ada.key, path });
    assert.equal(shown.value["state"], "needs_auth");
    assert.match(String(shown.value["reason"]), /invalid_grant/);
    await authorize(rig, second, ada);
    assert.match((await run(rig, first, ada)).text, /"ada"/);
    assert.equal((await call(rig, first, { key: ada.key, path, method: "DELETE" })).status, 204);
    assert.equal((await call(rig, first, { key: ada.key, path, method: "DELETE" })).status, 404);
    assert.deepEqual((await run(rig, second, ada)).tools, []);
  });
});

Deno.test("callbacks that nobody began, of another state, or twice are refused", async () => {
  await withRig(async (rig) => {
    const { first, server } = rig;
    const ada = await createUser(first, "ada");
    const path = "/v1/mcp/guarded/authorize";
    const begun = await call(rig, first, { key: ada.key, path, method: "POST" });
    const back = await server.approve(String(begun.value["url"]), "ada");
    const ask = async (change: (url: URL) => void) => {
      const url = new URL(back);
      change(url);
      const answer = await fetch(url);
      const text = await answer.text();
      rig.said.push(text);
      return answer.status;
    };
    assert.equal(await ask((url) => url.searchParams.delete("state")), 400);
    assert.equal(await ask((url) => url.searchParams.set("state", "A".repeat(64))), 400);
    assert.equal(await ask((url) => url.searchParams.append("code", "another")), 400);
    assert.equal(await ask(() => {}), 200);
    assert.equal(await ask(() => {}), 400);
    assert.equal(server.counts.codes, 1);

    const unknown = await call(rig, first, { key: ada.key, path: "/v1/mcp/x/authorize" });
    assert.equal(unknown.status, 404);
    const nobody = await fetch(`${first.url}${path}`, { method: "POST" });
    await nobody.body?.cancel();
    assert.equal(nobody.status, 401);
    const document = await call(rig, first, { key: "", path: "/v1/mcp/oauth/client.json" });
    assert.equal(document.status, 404);
  });
});
