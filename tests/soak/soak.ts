import { childrenOf } from "../support/processes.ts";
import { startHttpMcpServer } from "../mcp/http_server.ts";
import { scripted, withServers } from "../mcp/rig.ts";
import { connectMcp, MCP_CLIENTS } from "../support/mcp_clients.ts";
import { eventually, withHub } from "../support/test_hub.ts";
import type { JsonObject } from "../../src/core/json.ts";

/** What a process holds. */
export interface Held {
  /** Open file descriptors, sockets and pipes among them. */
  files: number;
  children: number;
  /** Used heap after a collection. */
  heap: number;
  /** Resident memory. */
  resident: number;
}

/** What connecting and closing again and again left behind. */
export interface Soak {
  kind: string;
  cycles: number;
  seconds: number;
  before: Held;
  /** After the first half of the cycles, and after all. */
  half: Held;
  all: Held;
  /** When the server is gone as well. */
  after: Held;
}

type Cycle = () => Promise<void>;

/** How to connect, use and close once, by kind: `hub` is the client, or `/mcp` the server. */
export const KINDS: Readonly<
  Record<string, (use: (cycle: Cycle) => Promise<void>) => Promise<void>>
> = {
  "hub to stdio": async (use) => {
    const light = new URL("light_server.sh", import.meta.url).pathname;
    await use(asClient({ command: "sh", args: [light] }));
  },
  "hub to stdio, stubborn": async (use) => {
    await use(asClient(scripted({ tools: [TOOL], modes: ["stubborn"] })));
  },
  "hub to Streamable HTTP": remote((url) => ({ url: `${url}/mcp` })),
  "hub to HTTP+SSE": remote((url) => ({ url: `${url}/sse`, type: "sse" })),
  "hub to WebSocket": remote((url) => ({ url: `${url.replace("http", "ws")}/ws` })),
  ...Object.fromEntries(MCP_CLIENTS.map((kind) => [`${kind} to hub`, async (use) => {
    await withHub({}, async (hub) => {
      await use(async () => {
        const client = await connectMcp(kind, hub);
        await client.call("hub_calculate", { expression: "1+1" });
        await client.close();
      });
    });
  }])),
};

const TOOL = { name: "good", inputSchema: { type: "object" } };

function asClient(server: JsonObject): Cycle {
  return () =>
    withServers({ one: server }, async ({ mcp, call }) => {
      await mcp.settled(60_000);
      await call("one__good");
    });
}

function remote(settings: (url: string) => JsonObject) {
  return async (use: (cycle: Cycle) => Promise<void>) => {
    const server = startHttpMcpServer();
    const cycle = asClient(settings(server.url));
    await use(async () => {
      await cycle();
      server.seen.length = 0;
    });
    await server.stop();
  };
}

/** Sockets that the runtime keeps for the next request, more or less of them. */
const POOLED = 16;
const warm = new Set<string>();

/** Connects and closes this often, some at a time. */
export async function soak(kind: string, cycles: number): Promise<Soak> {
  const run = KINDS[kind];
  if (run === undefined) throw new Error(`No kind ${kind}`);
  // What is loaded and opened once is there before it is counted.
  const side = /to hub$/.test(kind) ? "server" : "client";
  if (!warm.has(side)) await run(async (cycle) => await cycle());
  warm.add(side);
  const before = await settle();
  const startedMs = performance.now();
  let half = before;
  let all = before;
  let seconds = 0;
  await run(async (cycle) => {
    await repeat(cycle, Math.ceil(cycles / 2));
    half = await settle();
    await repeat(cycle, Math.floor(cycles / 2));
    seconds = Math.round((performance.now() - startedMs) / 1000);
    all = await settle({ ...half, files: half.files + POOLED });
  });
  return { kind, cycles, seconds, before, half, all, after: await settle(before) };
}

/** What of a soak is a leak, in words; memory is compared between the halves, since the first one warms up. */
export function findLeaks({ kind, cycles, before, half, all, after }: Soak): string[] {
  const grown = all.heap - half.heap;
  const wrong = [
    all.files > half.files + POOLED && `${half.files} files became ${all.files}`,
    all.children > half.children && `${half.children} children became ${all.children}`,
    after.files > before.files && `${after.files - before.files} files were left`,
    after.children > before.children && `${after.children - before.children} children were left`,
    grown > 1e6 + 2000 * cycles && `the heap grew by ${grown} bytes`,
  ];
  return wrong.filter((text) => text !== false).map((text) => `${kind}: ${text}`);
}

async function repeat(cycle: Cycle, times: number): Promise<void> {
  let left = times;
  const work = async () => {
    while (left-- > 0) await cycle();
  };
  await Promise.all([work(), work(), work(), work()]);
}

/** What the process holds, once it holds no more than it did; what it holds anyway when it never does. */
async function settle(wanted?: Held): Promise<Held> {
  let held = await holding();
  await eventually(async () => {
    if (wanted === undefined) return true;
    held = await holding();
    return held.files <= wanted.files && held.children <= wanted.children || null;
  }, 10_000).catch(() => {/* it is told as it is */});
  return held;
}

/** Used heap after a collection, and resident memory, in bytes; the process runs with `--expose-gc`. */
export function measureMemory(): { heapUsed: number; rss: number } {
  (globalThis as { gc?: () => void }).gc?.();
  return Deno.memoryUsage();
}

async function holding(): Promise<Held> {
  const { heapUsed, rss } = measureMemory();
  const list = new Deno.Command("ls", { args: [`/proc/${Deno.pid}/fd`], stdin: "null" });
  const { stdout } = await list.output();
  return {
    files: new TextDecoder().decode(stdout).trim().split("\n").length,
    // But for the one that counts them.
    children: (await childrenOf(Deno.pid)).length - 1,
    heap: heapUsed,
    resident: rss,
  };
}
