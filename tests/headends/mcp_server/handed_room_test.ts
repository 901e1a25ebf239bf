import assert from "node:assert/strict";
import { HandedCredentials } from "../../../src/core/handed_credentials.ts";
import { HandedRoom } from "../../../src/headends/mcp_server/handed_room.ts";

const guest = (keyId: string, ...servers: string[]) => ({
  principal: { keyId },
  handed: servers.length === 0
    ? null
    : new HandedCredentials(new Map(servers.map((server) => [server, "credential"]))),
});

Deno.test("a key has so many connections by credentials that it handed over, and all keys so many together", () => {
  const room = new HandedRoom({ maxPerKey: 3, maxTotal: 4 });
  const leave = room.enter(guest("a", "one", "two"));
  assert.throws(() => room.enter(guest("a", "one", "two")), {
    code: "rate_limit_exceeded",
    retryAfterMs: 1000,
  });
  room.enter(guest("a", "one"));
  room.enter(guest("a"));
  room.enter(guest("b", "one"));
  assert.throws(() => room.assertFor(guest("b", "one")), { code: "overloaded" });
  room.assertFor(guest("b"));
  assert.equal(room.size, 4);
  leave();
  room.assertFor(guest("b", "one", "two"));
  assert.equal(room.size, 2);
});
