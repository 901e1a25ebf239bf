import assert from "node:assert/strict";
import { exchange } from "../http/fixture.ts";
import { issueSecondKey } from "../support/second_key.ts";
import { type TestConfig, type TestHub, withHub } from "../support/test_hub.ts";

const base = {
  providers: { up: { baseUrl: "http://127.0.0.1:1/v1", apiKey: "sk-up" } },
  defaultModel: "up/m",
};

/** The status of a request for metrics over a real connection from a loopback address. */
async function statusOf(
  hub: TestHub,
  fields: readonly string[],
  { version = "1.1", host = "localhost" } = {},
): Promise<number> {
  const lines = [`GET /metrics HTTP/${version}`, `host: ${host}`, "connection: close", ...fields];
  const server = { port: Number(new URL(hub.url).port) };
  const { status, body } = await exchange(server, `${lines.join("\r\n")}\r\n\r\n`);
  assert.equal(body.includes("loophub_"), status === 200);
  return status;
}

const OF_PROXIES = [
  "forwarded: for=203.0.113.7",
  "via: 1.1 proxy",
  "x-real-ip: 203.0.113.7",
  "x-forwarded-for: 203.0.113.7",
  "X-Forwarded-Proto: https",
  "x-forwarded-for:",
  "cf-connecting-ip: 203.0.113.7",
  "true-client-ip: 203.0.113.7",
  "x-envoy-external-address: 203.0.113.7",
  "x-cluster-client-ip: 203.0.113.7",
  "fastly-client-ip: 203.0.113.7",
  "x-amzn-trace-id: Root=1-67891233-abcdef012345678912345678",
  "x-appengine-user-ip: 203.0.113.7",
  "x-azure-clientip: 203.0.113.7",
  "cdn-loop: example",
  "fly-client-ip: 203.0.113.7",
];

Deno.test("/metrics wants a key of all but programs of this machine", async (t) => {
  await withHub(base, async (hub) => {
    const withKey = [`authorization: Bearer ${hub.key}`];
    await t.step("a program of this machine needs none", async () => {
      assert.equal(await statusOf(hub, []), 200);
      assert.equal(await statusOf(hub, [], { host: "127.0.0.1:4141" }), 200);
    });
    await t.step("whom a proxy brings does", async () => {
      for (const field of OF_PROXIES) {
        assert.equal(await statusOf(hub, [field]), 401, field);
        assert.equal(await statusOf(hub, [field, ...withKey]), 200, field);
      }
      assert.equal(await statusOf(hub, [], { version: "1.0" }), 401);
      assert.equal(await statusOf(hub, withKey, { version: "1.0" }), 200);
    });
    await t.step("a key of any role does, and a wrong one does not", async () => {
      const user = await issueSecondKey(hub);
      assert.equal(await statusOf(hub, [`x-api-key: ${user}`, "via: 1.1 proxy"]), 200);
      assert.equal(await statusOf(hub, ["authorization: Bearer lh_wrong"]), 401);
    });
    await t.step("its description says so", async () => {
      const { paths } = await (await hub.call("/openapi.json")).json();
      assert.deepEqual(paths["/metrics"].get.security, [{ bearer: [] }, { apiKey: [] }, {}]);
    });
  });
});

const OTHERS: { name: string; server: TestConfig; host: string; none: number; proxied: number }[] =
  [
    { name: "key", server: { metrics: "key" }, host: "localhost", none: 401, proxied: 401 },
    { name: "public", server: { metrics: "public" }, host: "localhost", none: 200, proxied: 200 },
    {
      name: "local, with a trusted name",
      server: { trustedHosts: ["hub.example"] },
      host: "localhost",
      none: 401,
      proxied: 401,
    },
    {
      name: "local, with a public address",
      server: { publicUrl: "https://hub.example" },
      host: "localhost",
      none: 401,
      proxied: 401,
    },
    {
      name: "local, with names of this machine",
      server: { publicUrl: "http://localhost:4141", trustedHosts: ["hub.localhost"] },
      host: "hub.localhost",
      none: 200,
      proxied: 401,
    },
  ];

for (const { name, server, host, none, proxied } of OTHERS) {
  Deno.test(`who reads /metrics: ${name}`, async () => {
    await withHub({ ...base, server }, async (hub) => {
      assert.equal(await statusOf(hub, [], { host }), none);
      assert.equal(await statusOf(hub, ["x-forwarded-for: 203.0.113.7"], { host }), proxied);
      assert.equal(await statusOf(hub, [`authorization: Bearer ${hub.key}`], { host }), 200);
    });
  });
}
