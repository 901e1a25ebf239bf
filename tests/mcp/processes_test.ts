import assert from "node:assert/strict";
import { StdioTransport } from "../../src/mcp/stdio_transport.ts";
import { systemClock } from "../support/system_clock.ts";
import { eventually } from "../support/test_hub.ts";
import { processesOf } from "./rig.ts";

const parse = (text: string) => JSON.parse(text);
const PATH = { PATH: Deno.env.get("PATH") ?? "" };

async function start(script: string): Promise<StdioTransport & { pid: number }> {
  const transport = new StdioTransport({
    argv: ["sh", "-c", script],
    env: PATH,
    graceMs: 200,
    clock: systemClock,
    parse,
  });
  const ready = new Promise<void>((resolve) => {
    const onMessage = () => resolve();
    Object.assign(transport, { onmessage: onMessage });
  });
  await transport.start();
  await ready;
  return transport as StdioTransport & { pid: number };
}

const READY = `echo '{"jsonrpc":"2.0","method":"ready"}'`;
const cases = {
  "a polite server": `${READY}; cat >/dev/null`,
  "a server that waits for SIGTERM": `${READY}; exec sleep 1000`,
  "a server that ignores the end of its input and SIGTERM":
    `trap '' TERM; ${READY}; while :; do sleep 1; done`,
  "a server whose children ignore SIGTERM":
    `(trap '' TERM; exec sleep 1000) & ${READY}; cat >/dev/null`,
  "a server that crashes before its children": `sleep 1000 & ${READY}; exit 1`,
};
for (const [name, script] of Object.entries(cases)) {
  Deno.test(`${name} leaves no process behind`, async () => {
    const transport = await start(script);
    await transport.close();
    await eventually(async () => (await processesOf(transport.pid)).length === 0 || null);
  });
}

Deno.test("a server that reads nothing is ended all the same", async () => {
  const transport = await start(`trap '' TERM; ${READY}; while :; do sleep 1; done`);
  const text = "x".repeat(4 * 1024 * 1024);
  const sent = transport.send({ jsonrpc: "2.0", method: "big", params: { text } });
  const refused = assert.rejects(sent);
  await transport.close();
  await refused;
  await eventually(async () => (await processesOf(transport.pid)).length === 0 || null);
});

Deno.test("a hub that is killed takes its servers along", async () => {
  const module = new URL("../../src/mcp/stdio_transport.ts", import.meta.url).href;
  const script = `
    const { StdioTransport } = await import(${JSON.stringify(module)});
    const transport = new StdioTransport({
      argv: ["sh", "-c", ${JSON.stringify(cases["a server whose children ignore SIGTERM"])}],
      env: { PATH: Deno.env.get("PATH") }, graceMs: 200, parse: JSON.parse, clock: null,
    });
    transport.onmessage = () => console.log(transport.pid);
    await transport.start();
  `;
  const hub = new Deno.Command(Deno.execPath(), {
    args: ["eval", script],
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const reader = hub.stdout.getReader();
  const { value } = await reader.read();
  const group = Number(new TextDecoder().decode(value));
  assert.ok((await processesOf(group)).length > 1);
  hub.kill("SIGKILL");
  await hub.status;
  await reader.cancel();
  await eventually(async () => (await processesOf(group)).length === 0 || null);
});
