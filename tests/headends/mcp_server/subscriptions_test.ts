import assert from "node:assert/strict";
import { Subscriptions } from "../../../src/headends/mcp_server/subscriptions.ts";
import type { Caller } from "../../../src/headends/mcp_server/served_tool.ts";
import type { McpConnection } from "../../../src/mcp/connection.ts";
import type { CallersContent } from "../../../src/policy/callers_content.ts";

const callerOf = (keyId: string): Caller => ({
  principal: { tenantId: "t", keyId, keyName: keyId, role: "user" },
  requestId: "req",
  span: null,
});

/** One server without a prefix, of which all may be followed that is not secret. */
function createContent() {
  const connectionOf = (name: string) =>
    ({
      name,
      server: { slug: name, isPrefixed: false },
      content: { listing: null },
    }) as unknown as McpConnection;
  const state = { connection: connectionOf("one"), secret: "x:secret" };
  const followed = new Map<string, () => void>();
  const content = {
    servers: () => Promise.resolve([state.connection]),
    restrict: (_caller: unknown, _connection: unknown, listed: unknown) => listed,
    mayRead: (_caller: unknown, _connection: unknown, uri: string) => uri !== state.secret,
    follow(_caller: unknown, { name }: McpConnection, wish: { uri: string; onUpdate(): void }) {
      if (wish.uri === state.secret) return Promise.reject(new Error("not found"));
      followed.set(`${name} ${wish.uri}`, wish.onUpdate);
      return Promise.resolve(() => void followed.delete(`${name} ${wish.uri}`));
    },
  } as unknown as CallersContent;
  return { content, state, followed, connectionOf };
}

Deno.test("subscriptions are bounded for a client, for its key, and in all; what is refused takes no room", async () => {
  const { content, state } = createContent();
  const all = new Subscriptions({ content, maxPerClient: 2, maxPerKey: 3, maxTotal: 4 });
  const begin = (keyId: string) => all.begin(callerOf(keyId), () => {});
  const [one, two, other] = [begin("a"), begin("a"), begin("b")];
  await assert.rejects(one.add(state.secret), /not found/);
  await one.add("x:1");
  await one.add("x:1");
  await one.add("x:2");
  await assert.rejects(one.add("x:3"), /2 subscriptions of this client/);
  await two.add("x:1");
  await assert.rejects(two.add("x:2"), /3 subscriptions of this key/);
  await other.add("x:1");
  await assert.rejects(other.add("x:2"), /The hub has 4 subscriptions/);
  one.remove("x:1");
  one.remove("x:1");
  assert.equal(all.size, 3);
  await two.add("x:2");
  for (const client of [one, two, other]) client.close();
  assert.equal(all.size, 0);
  await assert.rejects(one.add("x:1"), /has left/);
});

Deno.test("a subscription goes to the connection that counts now, and ends with the right to it", async () => {
  const { content, state, followed, connectionOf } = createContent();
  const all = new Subscriptions({ content });
  const told: string[] = [];
  const client = all.begin(callerOf("a"), (uri) => void told.push(uri));
  await client.add("x:1");
  await client.add("x:2");
  followed.get("one x:1")?.();
  assert.deepEqual(told, ["x:1"]);
  state.connection = connectionOf("two");
  state.secret = "x:2";
  all.recheck();
  all.recheck();
  while (!followed.has("two x:1") || followed.size > 1) await Promise.resolve();
  assert.deepEqual(told, ["x:1", "x:1"]);
  assert.equal(all.size, 1);
  client.close();
  assert.equal(followed.size, 0);
});

Deno.test("one that is taken back and made again in a burst is followed once, and by nobody behind its end", async () => {
  const { content } = createContent();
  let following = 0;
  const waiting: (() => void)[] = [];
  const slow = {
    ...content,
    follow() {
      const { promise, resolve } = Promise.withResolvers<() => void>();
      waiting.push(() => {
        following++;
        resolve(() => void following--);
      });
      return promise;
    },
  } as unknown as CallersContent;
  const all = new Subscriptions({ content: slow });
  const client = all.begin(callerOf("a"), () => {});
  const added = [client.add("x:1")];
  client.remove("x:1");
  added.push(client.add("x:1"));
  client.remove("x:1");
  added.push(client.add("x:1"));
  while (waiting.length < 3) await Promise.resolve();
  for (const answer of waiting) answer();
  await Promise.all(added);
  assert.deepEqual([following, all.size], [1, 1]);
  client.close();
  assert.deepEqual([following, all.size], [0, 0]);
});
