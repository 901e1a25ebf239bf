// A server of the hub's with one route that reads a body; prints its port.
import { SILENT_LOG } from "../../src/core/log.ts";
import { jsonReply } from "../../src/http/reply.ts";
import { defineRoute } from "../../src/http/route.ts";
import { startServer } from "../../src/http/server/server.ts";
import { createTestApp, REAL_CLOCK } from "../http/fixture.ts";

const facts = { tag: "test", summary: "test", auth: "public" as const, responses: {} };
let longestMs = 0;
let turnMs = performance.now();
setInterval(() => {
  longestMs = Math.max(longestMs, performance.now() - turnMs);
  turnMs = performance.now();
}, 1);
const app = createTestApp([
  defineRoute({
    ...facts,
    method: "POST",
    path: "/body",
    body: "raw",
    async handle(call) {
      return jsonReply({ bytes: (await call.readBody()).length });
    },
  }),
  defineRoute({
    ...facts,
    method: "GET",
    path: "/longest",
    handle() {
      const reply = jsonReply({ longestMs });
      longestMs = 0;
      return reply;
    },
  }),
], { maxBodyBytes: 32 * 1024 * 1024 });
const server = startServer({ app, host: "127.0.0.1", port: 0, clock: REAL_CLOCK, log: SILENT_LOG });
await Deno.stdout.write(new TextEncoder().encode(`${server.port}\n`));
