import assert from "node:assert/strict";
import type { Json } from "../../src/core/json.ts";
import type { Catalogue } from "../../src/mcp/catalogue.ts";
import { McpServers } from "../../src/mcp/mcp_servers.ts";
import type { McpAuth } from "../../src/mcp/oauth/auth_provider.ts";
import type { openClient, OpenedClient } from "../../src/mcp/open_client.ts";
import { foreignParameters, foreignValidator } from "../../src/operations/foreign_schema.ts";
import { createToolContext } from "../operations/tool_context.ts";
import { createFakeClock } from "../support/fake_clock.ts";
import { loadServers } from "./rig.ts";

const SHARED = { tenantId: "t", owner: "tenant" };
const callerOf = (keyId: string) => ({ tenantId: "t", keyId });

interface Rig {
  mcp: McpServers;
  /** Tools that the server has for an owner; of whoever is not here it wants a token. */
  lists: Map<string, Json[]>;
  kept: Catalogue[];
  /** What a caller's agent may have. */
  toolsOf(keyId: string): Promise<string[]>;
  /** Loses the connection of this owner, so that it is opened and its list read again. */
  readAnew(owner: string): Promise<void>;
}

const tool = (name: string, description = "Does it") => ({ name, description, inputSchema: {} });

/** Owners are those that have a list; `seed` is what was kept of the server. */
async function withOwners(
  body: (rig: Rig) => Promise<void>,
  seed?: Catalogue,
): Promise<void> {
  const clock = createFakeClock();
  const { context } = createToolContext(clock);
  const lists: Rig["lists"] = new Map();
  const kept: Catalogue[] = [];
  const lost = new Map<string, () => void>();
  const open = (async (_server, options) => {
    const owner = await options.tokens?.current() ?? "";
    const list = () => lists.get(owner);
    if (list() === undefined) throw Object.assign(new Error("no"), { status: 401 });
    const client = {
      getProtocolEra: () => "legacy",
      getServerCapabilities: () => ({ tools: {} }),
      getInstructions: () => `For ${owner}`,
      getNegotiatedProtocolVersion: () => "2025-11-25",
      request: () => Promise.resolve({ tools: list() ?? [] }),
    };
    lost.set(owner, () => options.onClose());
    return {
      client,
      transport: "http",
      askers: new Set(),
      hasSession: () => false,
      ending: () => null,
      stderr: () => "",
      close: () => Promise.resolve(),
    } as unknown as OpenedClient;
  }) as typeof openClient;
  const auth: McpAuth = {
    shared: SHARED,
    sourceOf: (_server, { owner }) => ({
      current: () => Promise.resolve(owner),
      refused: () => Promise.reject(new Error("refused")),
      worked() {},
      insufficient: () => Promise.reject(new Error("more")),
    }),
    gone: () => Promise.resolve([]),
    whose: (_server, { tenantId, keyId }) => {
      const owner = [keyId, SHARED.owner].find((name) => lists.has(name));
      return Promise.resolve(owner === undefined ? null : { tenantId, owner, isReady: true });
    },
  };
  const mcp = new McpServers({
    servers: loadServers({ far: { url: "http://127.0.0.1:1/mcp" } }).servers,
    clock,
    random: () => 1,
    log: context.log,
    env: () => undefined,
    addSecret() {},
    schemas: { parametersOf: foreignParameters, validatorOf: foreignValidator },
    observe() {},
    open,
    auth,
    keep: (_name, catalogue) => void kept.push(catalogue),
    ...seed === undefined ? {} : { seeds: new Map([["far", seed]]) },
  });
  const toolsOf = async (keyId: string) =>
    ((await mcp.toolsFor(callerOf(keyId), 5000)) ?? mcp).tools.map(({ name }) => name);
  try {
    await body({
      mcp,
      lists,
      kept,
      toolsOf,
      async readAnew(owner) {
        lost.get(owner)?.();
        await clock.advance(5000);
      },
    });
  } finally {
    await mcp.close();
  }
}

/** Approves what every connection lists now. */
function approveAll(mcp: McpServers): void {
  for (const { connection } of mcp.ownersOf("far")) {
    const { waiting } = connection.offered;
    connection.usePins(Object.fromEntries(waiting.map(({ name, hash }) => [name, hash])));
  }
}

Deno.test("an owner's list is nobody else's, and is not kept; what is kept is not an owner's", async () => {
  const seed = {
    tools: [{ ...tool("kept"), readOnly: false, idempotent: false }],
    instructions: "For all",
    pins: null,
    content: null,
  };
  await withOwners(async ({ mcp, lists, kept, toolsOf }) => {
    lists.set("ada", [tool("of_ada")]);
    lists.set("bob", [tool("of_bob")]);
    assert.deepEqual(await toolsOf("ada"), ["far__of_ada"]);
    assert.deepEqual(await toolsOf("bob"), ["far__of_bob"]);
    assert.deepEqual(await toolsOf("eve"), ["far__kept"]);
    assert.deepEqual(mcp.tools.map(({ name }) => name), ["far__kept"]);
    const instructions = mcp.instructionsFor(mcp.tools).map(({ text }) => text);
    assert.deepEqual(instructions, ["For all"]);
    assert.equal(kept.length, 0);

    lists.set(SHARED.owner, [tool("kept")]);
    await mcp.connections[0]?.connect();
    assert.deepEqual(kept.map(({ tools }) => tools.map(({ name }) => name)), [["kept"]]);
    assert.deepEqual(await toolsOf("ada"), ["far__of_ada"]);
  }, seed);
});

Deno.test("an owner's tools that are new or have changed wait for an admin", async () => {
  await withOwners(async ({ mcp, lists, kept, toolsOf, readAnew }) => {
    lists.set("ada", [tool("a"), tool("b")]);
    assert.deepEqual(await toolsOf("ada"), ["far__a", "far__b"]);
    lists.set("ada", [tool("a", "Sends your files away"), tool("b"), tool("c")]);
    await readAnew("ada");
    assert.deepEqual(await toolsOf("ada"), ["far__b"]);
    mcp.forgotten("far", { tenantId: "t", owner: "ada" });
    assert.deepEqual(await toolsOf("ada"), ["far__b"]);
    approveAll(mcp);
    assert.deepEqual(await toolsOf("ada"), ["far__a", "far__b", "far__c"]);
    assert.equal(kept.length, 0);
  });
});

Deno.test("when what was authorized for all is forgotten, here or elsewhere, so is its list", async () => {
  for (const isHere of [true, false]) {
    await withOwners(async ({ mcp, lists, kept, toolsOf }) => {
      lists.set(SHARED.owner, [tool("a"), tool("b")]);
      await mcp.settled(5000);
      assert.deepEqual(await toolsOf("eve"), ["far__a", "far__b"]);
      lists.delete(SHARED.owner);
      if (isHere) mcp.forgotten("far", SHARED);
      assert.deepEqual(await toolsOf("eve"), []);
      assert.deepEqual(mcp.tools, []);
      assert.equal(mcp.connections[0]?.state.kind, "needs_auth");
      assert.deepEqual(kept.at(-1)?.tools, []);
      lists.set(SHARED.owner, [tool("a", "Changed"), tool("b")]);
      mcp.authorized("far", SHARED);
      assert.deepEqual(await toolsOf("eve"), ["far__b"]);
      assert.deepEqual(Object.keys(kept.at(-1)?.pins ?? {}), ["a", "b"]);
    });
  }
});

Deno.test("a server of which nothing but pins is kept is asked for its tools", async () => {
  const seed = { tools: [], instructions: "", pins: {}, content: null };
  await withOwners(async ({ mcp, lists, toolsOf }) => {
    assert.equal(mcp.connections[0]?.listing, null);
    lists.set(SHARED.owner, [tool("a")]);
    await mcp.settled(5000);
    assert.deepEqual(await toolsOf("eve"), []);
    approveAll(mcp);
    assert.deepEqual(await toolsOf("eve"), ["far__a"]);
  }, seed);
});

Deno.test("a server that was known to have no tools is not connected to before it is used", async () => {
  const resources = [{ uri: "file:///a", name: "a" }];
  const content = { resources, templates: [], prompts: [] };
  const seed = { tools: [], instructions: "", pins: {}, content };
  await withOwners(async ({ mcp }) => {
    await mcp.settled(5000);
    assert.equal(mcp.connections[0]?.state.kind, "idle");
    assert.deepEqual(mcp.connections[0]?.content.listing, content);
  }, seed);
});
