import assert from "node:assert/strict";
import { joinHeaders, keepConfigured } from "../../src/providers/configured_headers.ts";
import { QUIRKS } from "../../src/providers/quirks.ts";
import type { HeaderPairs, UpstreamRequest } from "../../src/providers/transport.ts";

const OWN: HeaderPairs = [["user-agent", "hub"], ["authorization", "Bearer hub"]];
const joined = (configured: HeaderPairs) =>
  joinHeaders({ own: OWN, ...QUIRKS.openrouter, configured });

Deno.test("joinHeaders: a configured header replaces the hub's in any case", () => {
  const configured: HeaderPairs = [["AUTHORIZATION", "Bearer ours"], ["X-Other", "1"]];
  const { attribution } = QUIRKS.openrouter;
  assert.deepEqual(joined(configured), [["user-agent", "hub"], ...attribution, ...configured]);
});

Deno.test("joinHeaders: a title or an address of the operator's stands without the hub's others", () => {
  for (const name of ["HTTP-Referer", "X-Title", "x-openrouter-title"]) {
    assert.deepEqual(joined([[name, "ours"]]), [...OWN, [name, "ours"]]);
  }
});

/** What is sent of a request with these fields. */
async function sent(configured: HeaderPairs, request: Pick<UpstreamRequest, "headers">) {
  let seen: UpstreamRequest | undefined;
  const send = keepConfigured((asked) => {
    seen = asked;
    return Promise.reject(new Error("no server"));
  }, configured);
  const fixedHeaders = joined(configured);
  const whole = { method: "POST", url: "http://x", body: null, fixedHeaders, ...request };
  await send(whole as UpstreamRequest).catch(() => {});
  return { seen, whole, all: [...seen?.fixedHeaders ?? [], ...seen?.headers ?? []] };
}

Deno.test("keepConfigured: a request's own field gives way, its other fields stay", async () => {
  const { all } = await sent([["TraceParent", "ours"]], {
    headers: [["traceparent", "hub"], ["x-request", "1"]],
  });
  assert.deepEqual(all.filter(([name]) => /trace/i.test(name)), [["TraceParent", "ours"]]);
  assert.ok(all.some(([name, value]) => name === "x-request" && value === "1"));
  assert.ok(all.some(([name]) => name === "authorization"));
});

Deno.test("keepConfigured: fields that came twice are sent once, and lists are joined", async () => {
  const configured: HeaderPairs = [["Anthropic-Beta", "a, b"], ["Authorization", "ours"]];
  // As requests that are carried through have them: everything among their own fields.
  const { all } = await sent(configured, { headers: [...configured, ["anthropic-beta", "b,c"]] });
  assert.deepEqual(all.filter(([name]) => /beta|auth/i.test(name)), [
    ["Anthropic-Beta", "a,b,c"],
    ["Authorization", "ours"],
  ]);
});

Deno.test("keepConfigured: a request without such a field is sent as it is", async () => {
  const { seen, whole } = await sent([["x-ours", "1"]], { headers: [["x-request", "1"]] });
  assert.equal(seen, whole);
});
