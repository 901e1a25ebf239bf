import assert from "node:assert/strict";
import type { JSONRPCMessage } from "@modelcontextprotocol/server";
import { RecentEvents } from "../../../src/headends/mcp_server/recent_events.ts";

const message = (method: string): JSONRPCMessage => ({ jsonrpc: "2.0", method });

async function replay(events: RecentEvents, after: string) {
  const sent: string[] = [];
  const streamId = await events.replayEventsAfter(after, {
    send: (_id, message) => {
      sent.push("method" in message ? message.method : "");
      return Promise.resolve();
    },
  });
  return { streamId, sent };
}

Deno.test("a stream's events behind the last that came, and no other's", async () => {
  const events = new RecentEvents();
  const first = await events.storeEvent("s1", {} as JSONRPCMessage);
  await events.storeEvent("s2", message("other"));
  const second = await events.storeEvent("s1", message("one"));
  await events.storeEvent("s1", message("two"));
  assert.deepEqual(await replay(events, first), { streamId: "s1", sent: ["one", "two"] });
  assert.deepEqual(await replay(events, second), { streamId: "s1", sent: ["two"] });
  assert.equal(await events.getStreamIdForEventId(second), "s1");
  assert.equal(await events.getStreamIdForEventId("s1|99"), undefined);
  await assert.rejects(replay(events, "s1|99"), /not known/);
});

Deno.test("only the last events are kept, by number and by size", async () => {
  const many = new RecentEvents();
  const ids: string[] = [];
  for (let at = 0; at < 300; at++) ids.push(await many.storeEvent("s", message(`n${at}`)));
  assert.equal(await many.getStreamIdForEventId(ids[43] ?? ""), undefined);
  assert.equal(await many.getStreamIdForEventId(ids[44] ?? ""), "s");

  const large = new RecentEvents();
  const small = await large.storeEvent("s", message("small"));
  await large.storeEvent("s", message("x".repeat(200_000)));
  await large.storeEvent("s", message("x".repeat(200_000)));
  assert.equal(await large.getStreamIdForEventId(small), undefined);
  const huge = await large.storeEvent("s", message("x".repeat(300_000)));
  assert.equal(await large.getStreamIdForEventId(huge), undefined);
});
