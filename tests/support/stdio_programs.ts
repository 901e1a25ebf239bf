import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/client";
import {
  StdioClientTransport,
  type StdioServerParameters,
} from "@modelcontextprotocol/client/stdio";
import { Client as V1Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as V1Transport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { stateOf } from "./processes.ts";
import { eventually } from "./test_hub.ts";

const INFO = { name: "test", version: "1" };
/** A program is slow to start on a busy machine. */
const SLOW = { timeout: 120_000 };

/** A client of the older library connects to a program; `left` closes it and waits for the program to go along. */
export async function connectV1(
  program: StdioServerParameters,
  client: V1Client = new V1Client(INFO),
): Promise<{ client: V1Client; left(): Promise<void> }> {
  const transport = new V1Transport(program as ConstructorParameters<typeof V1Transport>[0]);
  await client.connect(transport as Parameters<typeof client.connect>[0], SLOW);
  const { pid } = transport;
  return {
    client,
    async left() {
      await client.close();
      await gone(pid);
    },
  };
}

/** A client of the newer library has a program calculate, in the newest revision, and takes it along when it leaves. */
export async function assertServesNewest(program: StdioServerParameters): Promise<void> {
  const client = new Client(INFO, {
    versionNegotiation: { mode: "auto", probe: { timeoutMs: SLOW.timeout } },
  });
  const transport = new StdioClientTransport(program);
  await client.connect(transport, SLOW);
  assert.equal(client.getNegotiatedProtocolVersion(), "2026-07-28");
  const result = await client.callTool({
    name: "hub_calculate",
    arguments: { expression: "2+3" },
  });
  assert.deepEqual(result.structuredContent, { expression: "2+3", result: 5 });
  const { pid } = transport;
  await client.close();
  await gone(pid);
}

async function gone(pid: number | null): Promise<void> {
  assert.ok(pid !== null);
  await eventually(async () => await stateOf(pid) === null || null, 60_000);
}
