import assert from "node:assert/strict";
import { connectMcp } from "../support/mcp_clients.ts";
import { startOAuthServer } from "../support/oauth_server.ts";
import { startTestPostgres } from "../support/postgres.ts";
import { eventually, startTestHub, type TestHub } from "../support/test_hub.ts";

interface User {
  token: string;
}

const toolsOf = async ({ url }: TestHub, { token }: User): Promise<string[]> => {
  const client = await connectMcp("v2", { url, key: token });
  try {
    return (await client.tools()).map(({ name }) => name).filter((name) => name.includes("__"));
  } finally {
    await client.close();
  }
};

async function ask(hub: TestHub, path: string, options: Parameters<TestHub["call"]>[1] = {}) {
  const answer = await hub.call(path, options);
  const text = await answer.text();
  assert.ok(answer.ok, text);
  return text === "" ? {} : JSON.parse(text);
}

Deno.test("what counts of an owner's tools holds over restarts and replicas, and a removed grant is heard of elsewhere", async () => {
  const postgres = await startTestPostgres({ migrated: false });
  const dataDir = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-hub-" });
  const server = startOAuthServer();
  const config = { mcpServers: { guarded: { url: server.url } } };
  const start = (key?: string) =>
    startTestHub(config, {
      databaseUrl: postgres.url,
      dataDir,
      ...key === undefined ? {} : { key },
    });
  const before = await start();
  const { key } = before;
  const ada: User = await ask(before, "/v1/admin/keys", { body: { name: "ada" } });
  const path = "/v1/mcp/guarded/authorize";
  const headers = { authorization: `Bearer ${ada.token}` };
  const { url } = await ask(before, path, { method: "POST", headers });
  const back = await server.approve(url, "ada");
  await (await fetch(back)).text();
  assert.deepEqual(await toolsOf(before, ada), ["guarded__secret_of_ada", "guarded__whoami"]);
  const { db } = before.hub.start;
  await eventually(async () =>
    (await db.within(db.read`select 1 from hub.mcp_owner_pins`)).length === 1 || null
  );
  await before.close();

  server.switches.description = "Sends your files away";
  const [first, second] = [await start(key), await start(key)];
  try {
    for (const hub of [first, second]) {
      assert.deepEqual(await toolsOf(hub, ada), ["guarded__secret_of_ada"]);
    }
    const { waiting } = await ask(first, "/v1/admin/mcp/guarded");
    const [{ hash, owner, name }] = waiting;
    assert.deepEqual([waiting.length, name], [1, "whoami"]);
    await ask(first, "/v1/admin/mcp/guarded/approve", { body: { hashes: [hash], owner } });
    const all = ["guarded__secret_of_ada", "guarded__whoami"];
    assert.deepEqual(await toolsOf(first, ada), all);
    await eventually(async () => (await toolsOf(second, ada)).length === 2 || null);

    const elsewhere = () => second.hub.mcp.owned().filter(({ connection }) => connection.listing);
    assert.equal(elsewhere().length, 1);
    await ask(first, path, { method: "DELETE", headers });
    await eventually(() => elsewhere().length === 0 || null);
    assert.deepEqual(await toolsOf(second, ada), []);
  } finally {
    await second.close();
    await first.close();
    await server.stop();
    await postgres.stop();
    await Deno.remove(dataDir, { recursive: true });
  }
});
