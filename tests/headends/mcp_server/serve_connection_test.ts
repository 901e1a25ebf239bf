import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/client";
import { type JSONRPCMessage, type Transport } from "@modelcontextprotocol/server";
import { SILENT_LOG } from "../../../src/core/log.ts";
import type { ProtocolOptions } from "../../../src/headends/mcp_server/protocol_server.ts";
import { serveConnection } from "../../../src/headends/mcp_server/serve_connection.ts";
import type { ServedTool } from "../../../src/headends/mcp_server/served_tool.ts";
import { ToolCatalog } from "../../../src/headends/mcp_server/tool_catalog.ts";
import { Admission } from "../../../src/policy/admission.ts";
import { createFakeClock, settle } from "../../support/fake_clock.ts";

/** One end of a connection in memory. */
class End implements Transport {
  onclose?: () => void;
  onmessage?: (message: JSONRPCMessage) => void;
  other: End | null = null;

  start(): Promise<void> {
    return Promise.resolve();
  }

  async send(message: JSONRPCMessage): Promise<void> {
    await settle();
    this.other?.onmessage?.(message);
  }

  close(): Promise<void> {
    const { other } = this;
    this.other = null;
    if (other !== null) {
      this.onclose?.();
      void other.close();
    }
    return Promise.resolve();
  }
}

function serve(more: Partial<ProtocolOptions> = {}) {
  const clock = createFakeClock();
  const stopped: string[] = [];
  const slow: ServedTool = {
    name: "slow",
    description: "Waits until it is cancelled",
    inputSchema: { type: "object" },
    isFor: () => true,
    call: (_input, { signal }) =>
      new Promise((_, reject) => {
        const stop = () => {
          stopped.push("slow");
          reject(signal.reason);
        };
        signal.addEventListener("abort", stop);
      }),
  };
  let tools = [slow];
  const catalog = new ToolCatalog([{ list: () => tools }], clock);
  const connect = async (mode: "legacy" | "auto") => {
    const [near, far] = [new End(), new End()];
    near.other = far;
    far.other = near;
    serveConnection(far, {
      protocol: {
        catalog,
        policyOf: () => ({}),
        admission: new Admission({ keys: null, hub: null }),
        log: SILENT_LOG,
        info: { name: "test", version: "1" },
        ...more,
      },
      nextCaller: () => ({
        principal: { tenantId: "t", keyId: "key_1", keyName: "k", role: "user" },
        requestId: "req_1",
        span: null,
      }),
    });
    const changes: number[] = [];
    const client = new Client({ name: "t", version: "1" }, {
      versionNegotiation: { mode },
      listChanged: {
        tools: { autoRefresh: false, debounceMs: 0, onChanged: () => void changes.push(1) },
      },
    });
    await client.connect(near);
    return { client, changes };
  };
  return {
    clock,
    catalog,
    connect,
    stopped,
    rename: (name: string) => tools = [{ ...slow, name }],
  };
}

Deno.test("connections of both eras come and go, and leave nothing behind", async () => {
  const { catalog, connect, clock } = serve();
  for (let at = 0; at < 100; at++) {
    const { client } = await connect(at % 2 === 0 ? "legacy" : "auto");
    assert.equal((await client.listTools()).tools.length, 1);
    assert.equal(catalog.listeners, 1);
    await client.close();
    await settle();
    assert.equal(catalog.listeners, 0, `after ${at}`);
  }
  assert.equal(clock.pending(), 0);
});

Deno.test("a connection that ends cancels its calls, and clients hear of other tools", async () => {
  for (const mode of ["legacy", "auto"] as const) {
    const { catalog, connect, clock, stopped, rename } = serve();
    const { client, changes } = await connect(mode);
    await settle();
    rename("other");
    catalog.changed();
    await clock.advance(1000);
    for (let turn = 0; turn < 20 && changes.length === 0; turn++) await settle();
    assert.equal(changes.length, 1, mode);
    const call = client.callTool({ name: "other", arguments: {} });
    call.catch(() => {});
    for (let turn = 0; turn < 20; turn++) await settle();
    await client.close();
    await assert.rejects(call);
    for (let turn = 0; turn < 20 && stopped.length === 0; turn++) await settle();
    assert.deepEqual(stopped, ["slow"]);
  }
});

Deno.test("a call that has connections of its own ends those of its request first, others keep them", async () => {
  const seen: string[] = [];
  let isOpen = false;
  const toolOf = (name: string, hasConnections: boolean): ServedTool => ({
    name,
    description: name,
    inputSchema: { type: "object" },
    hasConnections,
    isFor: () => true,
    call() {
      seen.push(`${name} ${isOpen ? "open" : "ended"}`);
      return Promise.resolve({ content: [] });
    },
  });
  const tools = [toolOf("run", true), toolOf("call", false)];
  const own = new ToolCatalog([{ list: () => tools }], createFakeClock());
  const { connect } = serve({
    viewFor() {
      isOpen = true;
      return Promise.resolve({
        catalog: own,
        close() {
          isOpen = false;
          return Promise.resolve();
        },
      });
    },
  });
  const { client } = await connect("auto");
  for (const name of ["run", "call"]) await client.callTool({ name });
  assert.deepEqual(seen, ["run ended", "call open"]);
  assert.equal(isOpen, false);
  await client.close();
});
