import assert from "node:assert/strict";
import type { McpConnection } from "../../src/mcp/connection.ts";
import { Admission } from "../../src/policy/admission.ts";
import { AdmittedContent } from "../../src/policy/admitted_content.ts";
import { createFakeClock } from "../support/fake_clock.ts";
import { createTestGate } from "../support/gates.ts";

Deno.test("a reading takes a place until its server has answered, and whoever finds none is refused", async () => {
  const hub = createTestGate(createFakeClock(), { max: 1, maxQueued: 0 });
  const content = new AdmittedContent(new Admission({ keys: null, hub }), {
    mcp: { connectionsFor: () => Promise.resolve([]) },
    policyOf: () => ({}) as never,
  });
  const answer = Promise.withResolvers<{ contents: { uri: string; text: string }[] }>();
  let asked = 0;
  const connection = {
    name: "docs",
    server: { slug: "docs", isPrefixed: true },
    request() {
      asked++;
      return answer.promise;
    },
  } as unknown as McpConnection;
  const { signal } = new AbortController();
  const caller = { tenantId: "t", keyId: "k", signal, mayUse: () => true };
  const first = content.read(caller, connection, "x://a");
  await assert.rejects(content.read(caller, connection, "x://a"), /The gate/);
  const wish = { name: "p", arguments: {} };
  await assert.rejects(content.prompt(caller, connection, wish), /The gate/);
  assert.equal(asked, 1);
  answer.resolve({ contents: [{ uri: "x://a", text: "words" }] });
  assert.deepEqual(await first, [{ uri: "x://a", text: "words" }]);
  assert.equal((await content.read(caller, connection, "x://a")).length, 1);
  const none = { ...caller, mayUse: () => false };
  await assert.rejects(content.read(none, connection, "x://a"), /There is no resource/);
  assert.equal((await content.read(caller, connection, "x://a")).length, 1);
});
