import { createAgentTools } from "../headends/mcp_server/agent_tools.ts";
import { McpEndpoint } from "../headends/mcp_server/mcp_endpoint.ts";
import { ConnectionRoom } from "../headends/mcp_server/connection_room.ts";
import { HandedRoom } from "../headends/mcp_server/handed_room.ts";
import { createOperationTools } from "../headends/mcp_server/operation_tools.ts";
import type { CallersView, ProtocolOptions } from "../headends/mcp_server/protocol_server.ts";
import type { Caller } from "../headends/mcp_server/served_tool.ts";
import { Subscriptions } from "../headends/mcp_server/subscriptions.ts";
import { SseEndpoint } from "../headends/mcp_server/sse_endpoint.ts";
import { WsEndpoint } from "../headends/mcp_server/ws_endpoint.ts";
import { ServedSchemas } from "../headends/mcp_server/served_schemas.ts";
import { ToolCatalog } from "../headends/mcp_server/tool_catalog.ts";
import type { FollowOptions } from "../run/follow_run.ts";
import { AdmittedContent } from "../policy/admitted_content.ts";
import type { Authenticate } from "../policy/authenticate.ts";
import type { KeyNews } from "../policy/key_snapshot.ts";
import type { KeyPolicy } from "../policy/key_policy.ts";
import { fromUuid } from "../core/id.ts";
import type { Tool } from "../core/tool.ts";
import { VERSION } from "../core/version.ts";
import { type Agents, FIRST_TURN_MS } from "./agents.ts";
import type { Closing } from "./closing.ts";
import type { Gateway } from "./gateway.ts";
import type { Ground } from "./ground.ts";
import type { HubOptions } from "./hub_options.ts";

/** The hub as an MCP server. */
export interface McpServerPart {
  /** For surfaces other than HTTP. */
  protocol: ProtocolOptions;
  endpoint: McpEndpoint;
  sse: SseEndpoint;
  ws: WsEndpoint;
}

/** What it is made from. */
export interface McpServerParts {
  ground: Ground;
  gateway: Gateway;
  agents: Agents;
  closing: Closing;
  policyOf(keyId: string): KeyPolicy;
  /** Calls the listener with what becomes of keys. */
  onKeys(listener: (news: KeyNews) => void): void;
  isStopping(): boolean;
  stopped: AbortSignal;
  authenticate: Authenticate;
}

/** Joins what is served over MCP, and the endpoint that serves it. */
export function openMcpServer(options: HubOptions, parts: McpServerParts): McpServerPart {
  const { clock, ids, log, randomBytes } = options;
  const { ground: { db, metrics }, gateway: { live, admission }, agents, closing } = parts;
  const { start, findAgent, tools, fanOut, onClaimable } = agents;
  const follow: FollowOptions = { db, live: agents.live, wakeups: fanOut.wakeups };
  const onRequestElsewhere = (runId: string) => fanOut.requested(runId);
  const { isStopping, policyOf, stopped } = parts;
  const agentTools = createAgentTools({
    agents: () => live.config.agents,
    findAgent,
    ids,
    start,
    follow,
    isStopping,
    onRequestElsewhere,
    onClaimable,
  });
  const schemas = new ServedSchemas(log);
  const operationTools = (tools: () => readonly Tool[]) =>
    createOperationTools({ tools, schemas, clock, ids, log, observe: metrics.toolCall });
  const catalog = new ToolCatalog([agentTools, operationTools(tools)], clock);
  const handedRoom = new HandedRoom();
  const viewFor = async (caller: Caller): Promise<CallersView | null> => {
    const { principal, handed = null } = caller;
    const leave = handedRoom.enter(caller);
    try {
      const found = await agents.mcp.toolsFor(principal, FIRST_TURN_MS, handed);
      if (found === null) {
        leave();
        return null;
      }
      const all = operationTools(() => [...agents.operations, ...found.tools]);
      const end = async () => {
        await found.release?.();
        leave();
      };
      let ended: Promise<void> | null = null;
      const close = () => ended ??= end();
      return { catalog: new ToolCatalog([agentTools, all], clock), close };
    } catch (error) {
      leave();
      throw error;
    }
  };
  live.onChange(() => catalog.changed());
  agents.mcp.onChange(() => catalog.changed());
  agents.mcp.onContent(() => catalog.contentChanged());
  const info = { name: "loophub", version: VERSION };
  const subscriptions = new Subscriptions({ content: agents.content });
  catalog.onChange(({ content }) => {
    if (content) subscriptions.recheck();
  });
  agents.mcp.onOwned(({ owner }) => catalog.changedFor([fromUuid("key", owner)]));
  const protocol: ProtocolOptions = {
    catalog,
    content: new AdmittedContent(admission, { mcp: agents.mcp, policyOf }),
    subscriptions,
    viewFor,
    policyOf,
    admission,
    log,
    info,
  };
  const { keepaliveMs } = options.loaded.config.server;
  const mcpServers = () => live.config.mcpServers;
  const http = { ...protocol, mcpServers, handedRoom, clock, randomBytes, keepaliveMs, stopped };
  const room = new ConnectionRoom({ stopped });
  parts.onKeys(({ changed, moved, ended }) => {
    catalog.changedFor(changed);
    const gone = new Set(ended);
    endpoint.endFor(gone);
    // A connection has its caller from when it was opened; requests of sessions bring theirs.
    room.closeFor(new Set([...gone, ...moved]));
  });
  const endpoint = new McpEndpoint({ ...http, room, sharesPort: options.worker !== undefined });
  closing.add("mcp", async () => {
    catalog.close();
    await endpoint.close();
  });
  const { authenticate } = parts;
  return {
    protocol,
    endpoint,
    sse: new SseEndpoint({ ...http, room }),
    ws: new WsEndpoint({ ...http, ids, room, authenticate }),
  };
}
