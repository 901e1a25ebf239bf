import assert from "node:assert/strict";
import { ConnectionRoom } from "../../../src/headends/mcp_server/connection_room.ts";

Deno.test("a key has so many connections, and all of them end when the hub stops", () => {
  const stop = new AbortController();
  const room = new ConnectionRoom({ stopped: stop.signal, maxPerKey: 2 });
  const closed: number[] = [];
  const make = (at: number) => ({ close: () => void closed.push(at) });
  const [one, two, three] = [make(0), make(1), make(2)];
  room.assertFor("a");
  room.enter(one, "a");
  room.enter(two, "a");
  assert.throws(() => room.assertFor("a"), { code: "rate_limit_exceeded" });
  room.assertFor("b");
  room.leave(one);
  room.assertFor("a");
  room.enter(three, "b");
  stop.abort();
  assert.deepEqual(closed, [1, 2]);
  assert.equal(room.size, 2);
  assert.throws(() => room.assertFor("c"), { code: "shutting_down" });
});
