import type { McpConnection } from "../src/mcp/connection.ts";
import { readTools } from "../src/mcp/read_tools.ts";
import { toTool } from "../src/mcp/to_tool.ts";
import { foreignParameters, foreignValidator } from "../src/operations/foreign_schema.ts";
import { loadServers } from "../tests/mcp/rig.ts";
import { listsOfTools } from "../tests/mcp/tool_lists.ts";

const WANTED = 448;
const MOST_MS = 50;
const schemas = { parametersOf: foreignParameters, validatorOf: foreignValidator };

/** What making tools of the loop out of 448 tools of real MCP servers takes: as their lists come, until models may have them. Rejects when that is more than 50 ms. */
export async function measureMapping(rounds: number): Promise<string[]> {
  const all = [...listsOfTools().values()].flat();
  const tools = Array.from({ length: WANTED }, (_, at) => {
    const tool = all[at % all.length];
    const copy = at < all.length ? "" : "_again";
    return JSON.stringify({ ...tool, name: `${String(tool?.["name"])}${copy}` });
  });
  const took: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    const answer = { tools: tools.map((text) => JSON.parse(text)) };
    const startedMs = performance.now();
    const count = await mapAll(answer);
    took.push(performance.now() - startedMs);
    if (count < WANTED * 0.9) throw new Error(`Only ${count} tools came out`);
  }
  const [first = 0, ...later] = took;
  later.sort((a, b) => a - b);
  const median = later[Math.floor(later.length / 2)] ?? 0;
  if (median > MOST_MS) {
    throw new Error(
      `${WANTED} tools were mapped in ${median.toFixed(1)} ms, wanted ${MOST_MS} at most`,
    );
  }
  return [
    `mapping: ${WANTED} tools of MCP servers in ${median.toFixed(1)} ms (${
      later[0]?.toFixed(1)
    } at best), the first time in ${first.toFixed(1)} ms`,
  ];
}

async function mapAll(answer: unknown): Promise<number> {
  const client = {
    getServerCapabilities: () => ({ tools: {} }),
    getProtocolEra: () => "modern",
    request: () => Promise.resolve(answer),
  };
  const { one: server } = loadServers({ one: { command: "x" } }).servers;
  const { signal } = new AbortController();
  const listed = await readTools(client as never, { signal, timeoutMs: 1000 });
  const connection = { name: "one", server } as McpConnection;
  return listed.tools.map((tool) => toTool(connection, tool, { schemas, observe() {} })).length;
}
