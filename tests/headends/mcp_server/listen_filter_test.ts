import assert from "node:assert/strict";
import {
  followListened,
  LISTEN,
  listenedUris,
} from "../../../src/headends/mcp_server/listen_filter.ts";
import { Subscriptions } from "../../../src/headends/mcp_server/subscriptions.ts";
import type { CallersContent } from "../../../src/policy/callers_content.ts";

Deno.test("a request to listen has so many resources looked for, all of them at once", async () => {
  let looks = 0;
  const content = {
    servers() {
      looks++;
      return Promise.resolve([]);
    },
  };
  const subscriptions = new Subscriptions({
    content: content as unknown as CallersContent,
    maxPerClient: 100_000,
    maxPerKey: 100_000,
    maxTotal: 100_000,
  });
  const uris = Array.from({ length: 50_000 }, (_, at) => `x:${at}`);
  const message = { method: LISTEN, params: { notifications: { resourceSubscriptions: uris } } };
  assert.equal(listenedUris(message).length, 1000);
  const principal = { tenantId: "t", keyId: "k", keyName: "", role: "user" as const };
  const { message: left, own } = await followListened(message, {
    subscriptions,
    caller: { principal, requestId: "r", span: null },
    tell() {},
  });
  assert.deepEqual(left["params"], { notifications: { resourceSubscriptions: [] } });
  assert.equal(looks, 1);
  own.close();
});
