import assert from "node:assert/strict";
import { eventually } from "../support/test_hub.ts";
import { scripted, withServers } from "./rig.ts";

const MEGABYTE = 1024 * 1024;
const FLOOD_MEGABYTES = 300;
/** What may come and go while nothing is kept: buffers that the collector has not looked at yet. */
const SLACK_BYTES = 120 * MEGABYTE;

Deno.test("a server that floods stderr fills no memory of the hub, and its tools can be called meanwhile", async () => {
  const settings = { loud: scripted({ tools: [{ name: "poke" }] }) };
  await withServers(settings, async ({ mcp, call, connection }) => {
    await mcp.settled(60_000);
    const loud = connection("loud");
    const before = Deno.memoryUsage().rss;
    let most = before;
    let calls = 0;
    await call("loud__poke", { flood: FLOOD_MEGABYTES });
    await eventually(async () => {
      const { content } = await call("loud__poke", { flooded: true });
      calls++;
      most = Math.max(most, Deno.memoryUsage().rss);
      assert.ok(loud.stderr.length <= 4096, `${loud.stderr.length} characters are kept`);
      const text = JSON.stringify(content);
      return text.includes(`${FLOOD_MEGABYTES} of`) || null;
    }, 240_000);
    assert.equal(loud.state.kind, "ready");
    assert.match(loud.stderr, /noise/);
    assert.ok(calls > 1, "nothing was called meanwhile");
    const grown = Math.round((most - before) / MEGABYTE);
    assert.ok(most - before < SLACK_BYTES, `the hub grew by ${grown} MB`);
  });
});
