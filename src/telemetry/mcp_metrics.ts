import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import { toSeconds } from "./to_seconds.ts";

/** How an MCP server stands. */
export interface McpServerFact {
  server: string;
  state: string;
  tools: number;
}

/** A call of an MCP server's tool that ended. */
export interface McpCallEnd {
  server: string;
  outcome: string;
  durationMs: number;
}

/** MCP servers, as metrics show them; all of them are configured, so that their number is bounded. */
export interface McpMetrics {
  call(fact: McpCallEnd): void;
  /** A refresh of a token has ended. */
  refresh(ended: { server: string; outcome: string }): void;
  /** Shows these servers from now on. */
  servers(list: () => readonly McpServerFact[]): void;
}

const CALL_SECONDS = [0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60, 300];

/** Makes the series of MCP servers. */
export function createMcpMetrics(registers: Registry[]): McpMetrics {
  let list: () => readonly McpServerFact[] = () => [];
  new Gauge({
    name: "loophub_mcp_server_state",
    help: "1 for the state that an MCP server is in",
    labelNames: ["server", "state"],
    registers,
    collect() {
      this.reset();
      for (const { server, state } of list()) this.set({ server, state }, 1);
    },
  });
  new Gauge({
    name: "loophub_mcp_tools",
    help: "Tools that an MCP server lists",
    labelNames: ["server"],
    registers,
    collect() {
      for (const { server, tools } of list()) this.set({ server }, tools);
    },
  });
  const calls = new Counter({
    name: "loophub_mcp_calls_total",
    help: "Calls of tools of MCP servers that ended, by how",
    labelNames: ["server", "outcome"],
    registers,
  });
  const seconds = new Histogram({
    name: "loophub_mcp_call_seconds",
    help: "Duration of calls of tools of MCP servers, in seconds",
    labelNames: ["server"],
    buckets: CALL_SECONDS,
    registers,
  });
  const refreshes = new Counter({
    name: "loophub_mcp_token_refreshes_total",
    help: "Refreshes of tokens for MCP servers by this replica, by how they ended",
    labelNames: ["server", "outcome"],
    registers,
  });
  return {
    refresh: (labels) => refreshes.inc(labels),
    call({ server, outcome, durationMs }) {
      calls.inc({ server, outcome });
      seconds.observe({ server }, toSeconds(durationMs));
    },
    servers(next) {
      list = next;
    },
  };
}
