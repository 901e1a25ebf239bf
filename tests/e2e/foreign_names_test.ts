import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { startTestPostgres } from "../support/postgres.ts";
import { chat, createAdmin } from "../support/providers_rig.ts";
import {
  chatCompletion,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { startTestHub, type TestHub } from "../support/test_hub.ts";

/** A hub whose resolver knows one name more than the system, and the names it was asked for. */
async function withRig(
  limits: JsonObject,
  body: (rig: { hub: TestHub; upstream: ScriptedUpstream; looks: string[] }) => Promise<void>,
): Promise<void> {
  const server = await startTestPostgres({ migrated: false });
  const dataDir = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-hub-" });
  const upstream = await startScriptedUpstream(chatCompletion({ text: "Hi" }));
  const looks: string[] = [];
  const config = {
    // The operator's own: a name that leads to this machine.
    providers: { file: { baseUrl: `http://localhost:${upstream.port}/v1`, maxRetries: 0 } },
    defaultModel: "file/m",
    limits,
  };
  const resolveName = (name: string) => {
    looks.push(name);
    return Promise.resolve(name === "metadata.test" ? ["169.254.169.254"] : ["127.0.0.1"]);
  };
  const hub = await startTestHub(config, { databaseUrl: server.url, dataDir, resolveName });
  try {
    const admin = createAdmin(hub);
    for (const name of ["inside", "metadata"]) {
      const baseUrl = `http://${name}.test:${upstream.port}/v1`;
      const settings = { baseUrl, apiKey: `sk-of-${name}`, maxRetries: 0 };
      assert.equal((await admin("providers", { body: { name, ...settings } })).status, 201);
    }
    await body({ hub, upstream, looks });
  } finally {
    await hub.close();
    await upstream.stop();
    await server.stop();
    await Deno.remove(dataDir, { recursive: true });
  }
}

Deno.test("names of the database's providers lead to nothing private; those of the file lead anywhere", async () => {
  await withRig({}, async ({ hub, upstream, looks }) => {
    for (const model of ["inside/m", "metadata/m"]) assert.equal(await chat(hub, model), "502");
    const passed = await hub.call("/v1/moderations", { body: { model: "inside/m", input: "Hi" } });
    assert.equal(passed.status, 502);
    assert.doesNotMatch(await passed.text(), /169\.254|127\.0/);
    assert.equal(upstream.accepted, 0);
    assert.deepEqual(looks, ["inside.test", "metadata.test", "inside.test"]);
    // A kept connection of the file's provider is none of another's, and needs no look of this resolver.
    assert.equal(await chat(hub, "file/m"), "Hi");
    assert.equal(await chat(hub, "inside/m"), "502");
    assert.deepEqual([upstream.accepted, looks.length], [1, 4]);
    // An address that is written out is what an admin has chosen.
    const body = { name: "written", baseUrl: `http://127.0.0.1:${upstream.port}/v1` };
    assert.equal((await createAdmin(hub)("providers", { body })).status, 201);
    assert.equal(await chat(hub, "written/m"), "Hi");
    assert.equal(looks.length, 4);
  });
});

Deno.test("where names may lead to private networks each connection looks once, and metadata services stay out of reach", async () => {
  await withRig({ privateNames: true }, async ({ hub, upstream, looks }) => {
    for (let turn = 0; turn < 5; turn++) assert.equal(await chat(hub, "inside/m"), "Hi");
    assert.deepEqual([upstream.accepted, looks], [1, ["inside.test"]]);
    assert.equal(upstream.requests[0]?.header("host"), `inside.test:${upstream.port}`);
    assert.equal(upstream.requests[0]?.header("authorization"), "Bearer sk-of-inside");
    assert.equal(await chat(hub, "metadata/m"), "502");
  });
});
