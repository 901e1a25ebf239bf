import { adminKeyRoutes } from "../http/routes/admin_keys.ts";
import { adminMcpRoutes } from "../http/routes/admin_mcp.ts";
import { adminProviderRoutes } from "../http/routes/admin_providers.ts";
import { createMetricsAccess } from "../http/middleware/metrics_access.ts";
import { agentRoutes } from "../http/routes/agents.ts";
import { browserTokenRoutes, type BrowserTokensOptions } from "../http/routes/browser_tokens.ts";
import { approvalGrantRoutes } from "../http/routes/approval_grants.ts";
import { approvalRoutes } from "../http/routes/approvals.ts";
import { healthRoutes } from "../http/routes/health.ts";
import { aiSdkRoutes } from "../http/routes/ai_sdk_chat.ts";
import { chatCompletionsRoute } from "../http/routes/chat_completions.ts";
import { embeddingsRoute } from "../http/routes/embeddings.ts";
import { legacyCompletionsRoute } from "../http/routes/legacy_completions.ts";
import { mcpAuthorizeRoutes } from "../http/routes/mcp_authorize.ts";
import { mcpContentRoutes } from "../http/routes/mcp_content.ts";
import { messagesRoutes } from "../http/routes/messages.ts";
import { ollamaChat, ollamaRoutes } from "../http/routes/ollama.ts";
import { modelRoutes } from "../http/routes/models.ts";
import { passThroughRoutes } from "../http/routes/pass_through.ts";
import { questionRoutes } from "../http/routes/questions.ts";
import { preflightRoutes } from "../http/routes/preflight.ts";
import { responsesRoutes } from "../http/routes/responses.ts";
import { runRoutes } from "../http/routes/runs.ts";
import { steeringRoutes } from "../http/routes/steering.ts";
import { sessionRoutes } from "../http/routes/sessions.ts";
import { skillRoutes } from "../http/routes/skills.ts";
import { mcpRoutes } from "../headends/mcp_server/mcp_routes.ts";
import type { Route } from "../http/route.ts";
import { MessageQueue } from "../run/message_queue.ts";
import type { KeyPolicy } from "../policy/key_policy.ts";
import type { KeyDesk } from "../policy/manage_keys.ts";
import type { McpAuthorize } from "../policy/mcp_authorize.ts";
import type { ProviderDesk } from "../policy/manage_providers.ts";
import type { Agents } from "./agents.ts";
import type { Gateway } from "./gateway.ts";
import type { Ground } from "./ground.ts";
import type { HubOptions } from "./hub_options.ts";
import type { McpServerPart } from "./mcp_server.ts";

/** The parts that routes speak to. */
export interface RouteParts {
  ground: Ground;
  gateway: Gateway;
  agents: Agents;
  desk: KeyDesk;
  providerDesk: ProviderDesk;
  mcpServer: McpServerPart;
  mcpAuthorize: McpAuthorize;
  browserTokens: Pick<BrowserTokensOptions, "pepper" | "findKey">;
  policyOf(keyId: string): KeyPolicy;
  /** Whether the hub has begun to end. */
  isStopping(): boolean;
  /** Ends streams that follow runs; their readers resume elsewhere. */
  stopped: AbortSignal;
}

/** All routes but that of their description. */
export function createRoutes(options: HubOptions, parts: RouteParts): Route[] {
  const { loaded: { config }, ids, clock } = options;
  const { ground: { db, metrics }, gateway, agents } = parts;
  const { resolve, openAnswer, answers, cache, live } = gateway;
  const { start, findAgent, fanOut } = agents;
  const follow = { db, live: agents.live, wakeups: fanOut.wakeups, stopped: parts.stopped };
  const onRequestElsewhere = (runId: string) => fanOut.requested(runId);
  const { onClaimable } = agents;
  const { keepaliveMs } = config.server;
  const completions = { ...gateway, ui: { ids }, keepaliveMs };
  const mcpServers = () => live.config.mcpServers;
  const runs = { start, follow, findAgent, onRequestElsewhere, onClaimable, mcpServers };
  const ollama = {
    ...{ resolve, openAnswer, answers, cache, ids, now: () => clock.now() },
    models: () => live.models,
    policyOf: parts.policyOf,
  };
  return [
    ...healthRoutes({
      async notReady() {
        if (parts.isStopping()) return "the hub is stopping";
        return await db.whyUnready();
      },
      metrics,
      needsNoKey: createMetricsAccess(config.server),
    }),
    ...modelRoutes({
      models: () => live.models,
      agents: () => live.config.agents,
      resolve,
      policyOf: parts.policyOf,
      createdAt: clock.now(),
    }),
    chatCompletionsRoute(completions, { ...runs, ids, isStopping: parts.isStopping }),
    ...responsesRoutes({
      ...gateway,
      db,
      ids,
      redact: options.redact,
      keepaliveMs,
    }),
    ...messagesRoutes({
      resolve,
      openAnswer,
      answers,
      cache,
      ids,
      keepaliveMs,
    }),
    embeddingsRoute(gateway),
    legacyCompletionsRoute(completions),
    ...passThroughRoutes({
      ...gateway,
      bounds: { held: config.server.maxBodyBytes, streamed: config.server.maxUploadBytes },
    }),
    ...agentRoutes({ agents: () => live.config.agents, findAgent, policyOf: parts.policyOf }),
    ...skillRoutes({
      agents: () => live.config.agents,
      findAgent,
      listSkills: (agent) => agents.skills.list(agent),
      policyOf: parts.policyOf,
    }),
    ...sessionRoutes({ db, ids, findAgent, policyOf: parts.policyOf }),
    ...runRoutes(runs),
    ...steeringRoutes(runs),
    ...approvalRoutes(runs),
    ...approvalGrantRoutes(runs),
    ...questionRoutes({ ...runs, masterKey: parts.ground.masterKey, questions: agents.questions }),
    ...preflightRoutes(runs),
    ...ollamaRoutes(ollama),
    ...aiSdkRoutes({ ...runs, ids, queue: new MessageQueue(runs), otherChat: ollamaChat(ollama) }),
    ...browserTokenRoutes({
      ...parts.browserTokens,
      agents: () => live.config.agents,
      policyOf: parts.policyOf,
    }),
    ...mcpRoutes(parts.mcpServer),
    ...adminKeyRoutes({ db, desk: parts.desk, now: clock.now }),
    ...adminMcpRoutes({
      connections: () => agents.mcp.connections,
      traceOf: (server) => agents.mcp.traceOf(server),
      ownersOf: (server) => agents.mcp.ownersOf(server),
      approve: (server, wish) => agents.approvals.approve(server, wish),
      nowMs: () => clock.monotonic(),
      redact: options.redact,
    }),
    ...mcpContentRoutes({ content: agents.content }),
    ...mcpAuthorizeRoutes({
      authorize: parts.mcpAuthorize,
      publicUrl: config.server.publicUrl,
    }),
    ...adminProviderRoutes({ desk: parts.providerDesk, configured: () => live.file.providers }),
  ];
}
