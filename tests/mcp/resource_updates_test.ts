import assert from "node:assert/strict";
import type { Client } from "@modelcontextprotocol/client";
import { ResourceUpdates } from "../../src/mcp/resource_updates.ts";
import { createFakeClock } from "../support/fake_clock.ts";

function createRig() {
  const clock = createFakeClock();
  const asked: string[] = [];
  const stale: Client[] = [];
  const failed: unknown[] = [];
  const refusals = new Map<string, Error>();
  let note = (_: { params: { uri: string } }) => {};
  const createClient = () =>
    ({
      getServerCapabilities: () => ({ resources: { subscribe: true } }),
      getProtocolEra: () => "legacy",
      setNotificationHandler: (_method: string, handler: typeof note) => void (note = handler),
      request({ method, params: { uri } }: { method: string; params: { uri?: string } }) {
        asked.push(uri === undefined ? method : `${method} ${uri}`);
        const refusal = refusals.get(method);
        return refusal === undefined ? Promise.resolve({}) : Promise.reject(refusal);
      },
    }) as unknown as Client;
  const updates = new ResourceUpdates({
    clock,
    timeoutMs: 1000,
    onStale: (client) => void stale.push(client),
    onFailure: (error) => void failed.push(error),
  });
  const told = (uri: string) => note({ params: { uri } });
  return { clock, asked, stale, failed, refusals, createClient, updates, told };
}

Deno.test("a server is asked once a minute whether it knows the session, and subscribed to anew with the next", async () => {
  const { clock, asked, stale, refusals, createClient, updates } = createRig();
  const [first, second] = [createClient(), createClient()];
  updates.use(first);
  const one = updates.follow("x:1", () => {});
  const two = updates.follow("x:1", () => {});
  await Promise.all([one.ready, two.ready]);
  assert.deepEqual(asked.splice(0), ["resources/subscribe x:1"]);
  refusals.set("ping", Object.assign(new Error("gone"), { status: 404 }));
  await clock.advance(60_000);
  assert.deepEqual(asked.splice(0), ["ping"]);
  assert.deepEqual(stale, [first]);
  updates.use(second);
  await clock.advance(0);
  assert.deepEqual(asked.splice(0), ["resources/subscribe x:1"]);
  one.release();
  await clock.advance(0);
  assert.deepEqual(asked, []);
  two.release();
  await clock.advance(60_000);
  assert.deepEqual(asked, ["resources/unsubscribe x:1"]);
  assert.equal(updates.any, false);
  updates.close();
});

Deno.test("a flood of updates is told once, a part's as its whole's, and what nobody follows never", async () => {
  const { clock, createClient, updates, told } = createRig();
  updates.use(createClient());
  const heard: string[] = [];
  await updates.follow("file:///a", () => void heard.push("a")).ready;
  await updates.follow("file:///b", () => void heard.push("b")).ready;
  for (let at = 0; at < 10_000; at++) told(`file:///a/${at}`);
  told("file:///ab");
  told("file:///other");
  await clock.advance(100);
  assert.deepEqual(heard, ["a"]);
  told("file:///b");
  await clock.advance(100);
  assert.deepEqual(heard, ["a", "b"]);
  updates.close();
});

Deno.test("whoever leaves between an update and its telling takes no other's update along", async () => {
  const { clock, createClient, updates, told } = createRig();
  updates.use(createClient());
  const heard: string[] = [];
  const leaving = updates.follow("x:1", () => void heard.push("x:1"));
  const staying = updates.follow("x:2", () => void heard.push("x:2"));
  await Promise.all([leaving.ready, staying.ready]);
  told("x:1");
  leaving.release();
  told("x:2");
  await clock.advance(100);
  assert.deepEqual(heard, ["x:2"]);
  updates.close();
});
