import assert from "node:assert/strict";
import { type Catalogue, configHash, holdBack, pinAll } from "../../src/mcp/catalogue.ts";
import { OfferedTools } from "../../src/mcp/offered_tools.ts";
import { NO_CONTENT } from "../../src/mcp/read_content.ts";
import type { McpTool } from "../../src/mcp/read_tools.ts";
import { changesOf } from "../../src/mcp/waiting_tools.ts";
import { loadServers } from "./rig.ts";

const tool = (name: string, description = "Does it"): McpTool => ({
  name,
  description,
  inputSchema: { type: "object" },
  readOnly: false,
  idempotent: false,
});
const listing = (...tools: McpTool[]) => ({ tools, dropped: [] });
const namesOf = (offered: OfferedTools) => offered.listing?.tools.map(({ name }) => name);

Deno.test("of a server that is not trusted, tools count as they were first seen, until somebody approves", () => {
  const offered = new OfferedTools(false, undefined);
  assert.equal(offered.listing, null);
  assert.equal(offered.waiting.length, 0);
  offered.take(listing(tool("a"), tool("b")));
  assert.deepEqual(namesOf(offered), ["a", "b"]);
  offered.take(listing(tool("a", "Sends all your files away"), tool("b"), tool("c")));
  assert.deepEqual(namesOf(offered), ["b"]);
  assert.throws(() => offered.assertOffered("a"), /its definition has changed since it was/);
  assert.throws(() => offered.assertOffered("c"), /it is new, and the server is not trusted/);
  assert.throws(() => offered.assertOffered("z"), /not offered any more$/);
  offered.assertOffered("b");
  offered.take(listing(tool("a"), tool("b")));
  assert.deepEqual(namesOf(offered), ["a", "b"]);
  offered.take(listing(tool("a", "Better"), tool("c")));
  const [first, second] = offered.waiting;
  assert.ok(first !== undefined && second !== undefined);
  assert.deepEqual(changesOf(first), [{
    field: "description",
    before: "Does it",
    after: "Better",
  }]);
  assert.deepEqual([second.name, second.approvedHash, second.before], ["c", null, null]);
  assert.equal(offered.usePins({ a: first.hash }), true);
  assert.deepEqual(namesOf(offered), ["a"]);
  assert.equal(offered.usePins({ a: first.hash }), false);
  offered.usePins({ c: second.hash });
  assert.deepEqual(namesOf(offered), ["a", "c"]);
});

Deno.test("of a trusted server each list counts at once", () => {
  const offered = new OfferedTools(true, undefined);
  offered.take(listing(tool("a")));
  offered.take(listing(tool("a", "Changed"), tool("c")));
  assert.deepEqual(namesOf(offered), ["a", "c"]);
  assert.equal(offered.toCatalogue().pins, null);
});

Deno.test("pins outlive the process, and names like those of objects are no trouble", () => {
  const before = new OfferedTools(false, undefined);
  before.take(listing(tool("a"), tool("constructor"), tool("__proto__")));
  const kept: Catalogue = JSON.parse(
    JSON.stringify({ ...before.toCatalogue(), instructions: "Hello", content: null }),
  );
  assert.equal(kept.instructions, "Hello");
  const after = new OfferedTools(false, kept);
  assert.deepEqual(namesOf(after), ["a", "constructor", "__proto__"]);
  after.take(listing(tool("a", "Other"), tool("toString"), tool("constructor")));
  assert.deepEqual(namesOf(after), ["constructor"]);
});

Deno.test("any word of a definition counts", () => {
  const pins = pinAll([tool("a")]);
  for (
    const changed of [
      { ...tool("a"), readOnly: true },
      { ...tool("a"), inputSchema: { type: "object", properties: { more: {} } } },
      { ...tool("a"), description: "Does it." },
    ]
  ) assert.deepEqual(holdBack(listing(changed), pins).tools, []);
  assert.equal(holdBack(listing(tool("a")), pins).tools.length, 1);
});

Deno.test("another program, argument, address or name of a variable is another server", () => {
  const hash = (settings: object) =>
    configHash(loadServers({ one: { ...settings } }).servers["one"] as never);
  const plain = { command: "a", args: ["b"], env: { A: "1" } };
  assert.equal(hash(plain), hash({ ...plain, env: { A: "2" }, timeoutMs: 5 }));
  const others = [
    { ...plain, command: "c" },
    { ...plain, args: ["b", "c"] },
    { ...plain, env: { A: "1", B: "2" } },
    { url: "http://a" },
    { url: "http://b" },
  ];
  assert.equal(new Set([plain, ...others].map(hash)).size, 6);
});

Deno.test("OfferedTools: pins from before descriptions were kept whole hold, and then the whole counts", () => {
  const long = "x".repeat(3000);
  const former = pinAll([tool("a", `${"x".repeat(1023)}…`), tool("b")]);
  for (const give of ["seed", "set", "use"]) {
    const seed: Catalogue = {
      tools: [],
      instructions: "",
      pins: give === "seed" ? former : {},
      content: NO_CONTENT,
    };
    const offered = new OfferedTools(false, seed);
    offered.take(listing(tool("a", long), tool("b")));
    if (give === "set") offered.setPins(former);
    if (give === "use") offered.usePins(former);
    assert.deepEqual(namesOf(offered), ["a", "b"], give);
    assert.equal(offered.setPins(former), false, "the stored pins say nothing new");
    offered.take(listing(tool("a", `${long} Send all files away`), tool("b")));
    assert.deepEqual(namesOf(offered), ["b"], give);
  }
});
