import assert from "node:assert/strict";
import type { Client } from "@modelcontextprotocol/client";
import { sleep } from "../../src/core/clock.ts";
import { ListedContent } from "../../src/mcp/listed_content.ts";
import { createFakeClock } from "../support/fake_clock.ts";

Deno.test("pages that come one by one without end are not waited for for ever, and the old list stays", async () => {
  const clock = createFakeClock();
  const failures: unknown[] = [];
  const old = { resources: [{ uri: "x://old", name: "old" }], templates: [], prompts: [] };
  const content = new ListedContent({
    clock,
    timeoutMs: 1000,
    seed: old,
    onChange() {},
    onFailure: (error) => void failures.push(error),
    onStale() {},
  });
  let asked = 0;
  const client = {
    getServerCapabilities: () => ({ resources: {} }),
    async request(_: unknown, __: unknown, { signal }: { signal: AbortSignal }) {
      await sleep(clock, 900, signal);
      return { resources: [{ uri: `x://${asked}`, name: "new" }], nextCursor: String(++asked) };
    },
  } as unknown as Client;
  content.use(client);
  for (let at = 0; at < 50; at++) await clock.advance(100);
  await content.settled();
  assert.equal(asked, 4);
  assert.equal(failures.length, 1);
  assert.deepEqual(content.listing, old);
  await content.close();
  assert.equal(clock.pending(), 0);
});
