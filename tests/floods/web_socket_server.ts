// A server of the hub's that takes MCP over WebSockets at /ws; prints its port.
import { SILENT_LOG } from "../../src/core/log.ts";
import { WsConnection } from "../../src/headends/mcp_server/ws_connection.ts";
import { jsonReply } from "../../src/http/reply.ts";
import { startServer } from "../../src/http/server/server.ts";
import { wantsWebSocket, webSocketReply } from "../../src/http/upgrade.ts";
import { REAL_CLOCK } from "../http/fixture.ts";

let ends = 0;
let longestMs = 0;
let turnMs = performance.now();
setInterval(() => {
  longestMs = Math.max(longestMs, performance.now() - turnMs);
  turnMs = performance.now();
}, 1);
const server = startServer({
  app: {
    handle(request) {
      if (!wantsWebSocket(request)) {
        const reply = jsonReply({ ends, longestMs });
        longestMs = 0;
        return reply;
      }
      const connection = new WsConnection({
        request,
        clock: REAL_CLOCK,
        pingMs: 10_000,
        assertKey: () => Promise.resolve(),
        onEnd: () => void ends++,
      });
      void connection.start();
      return webSocketReply(request, { frames: connection.frames });
    },
  },
  host: "127.0.0.1",
  port: 0,
  clock: REAL_CLOCK,
  log: SILENT_LOG,
});
await Deno.stdout.write(new TextEncoder().encode(`${server.port}\n`));
