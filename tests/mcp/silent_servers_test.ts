import assert from "node:assert/strict";
import { createFakeClock } from "../support/fake_clock.ts";
import { eventually } from "../support/test_hub.ts";
import { withServers } from "./rig.ts";

/** Takes connections, and never says anything. */
function startSilent() {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const taken: Deno.Conn[] = [];
  const accepting = (async () => {
    for await (const connection of listener) taken.push(connection);
  })();
  return {
    address: `127.0.0.1:${(listener.addr as Deno.NetAddr).port}`,
    taken,
    async stop() {
      listener.close();
      await accepting;
      for (const connection of taken) connection.close();
    },
  };
}

for (const transport of ["ws", "sse", "http"] as const) {
  Deno.test(`a server that takes a connection and says nothing over ${transport} is given up in time, and holds up no end`, async () => {
    const server = startSilent();
    const clock = createFakeClock();
    const url = `${transport === "ws" ? "ws" : "http"}://${server.address}`;
    const settings = { url, transport, connectTimeoutMs: 1500 };
    try {
      await withServers({ silent: settings }, async ({ connection }) => {
        const silent = connection("silent");
        const connecting = silent.connect();
        await eventually(() => server.taken.length > 0 || null);
        await clock.advance(1500);
        await connecting;
        const { state } = silent;
        assert.equal(state.kind, "backoff");
        assert.match("reason" in state ? state.reason : "", /did not answer within 1500 ms/);
        const before = server.taken.length;
        void silent.connect();
        await eventually(() => server.taken.length > before || null);
      }, { clock });
    } finally {
      await server.stop();
    }
  });
}
