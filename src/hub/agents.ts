import type { ResolvedConfig } from "../config/load.ts";
import type { HoldKey } from "../core/key_end.ts";
import type { Principal, Tool } from "../core/tool.ts";
import { createBuiltinOperations } from "../operations/builtin/builtin_operations.ts";
import type { CallersTools } from "../mcp/callers_connections.ts";
import type { McpServers } from "../mcp/mcp_servers.ts";
import type { McpAuth } from "../mcp/oauth/auth_provider.ts";
import { loadOperationModules } from "../operations/load_modules.ts";
import { createRegistry } from "../operations/registry.ts";
import { windowOf } from "../providers/model_window.ts";
import { createTokenizers } from "../providers/tokenizer/create_tokenizers.ts";
import { type AskedAgent, createAgents, type FindAgent } from "../run/create_agents.ts";
import { endRuns } from "../run/end_runs.ts";
import { createExecuteTool } from "../run/execute_tool.ts";
import { FanOut } from "../run/fan_out.ts";
import { HandedRuns } from "../run/handed_runs.ts";
import { type Housekeeping, startHousekeeping } from "../run/housekeeping.ts";
import { LiveRuns } from "../run/live_runs.ts";
import { QuestionDesk } from "../run/question_desk.ts";
import { CallersContent } from "../policy/callers_content.ts";
import type { KeyPolicy } from "../policy/key_policy.ts";
import type { StartOptions } from "../run/runnable_agent.ts";
import { createSampler } from "../run/sample_model.ts";
import { stopDeserted, stopRunsOfEndedKeys } from "../run/stop_run.ts";
import { SubAgents } from "../run/sub_agents.ts";
import type { TakeOverOptions } from "../run/take_over.ts";
import { readBlob } from "../store/blobs.ts";
import { readOutcome } from "../store/tool_calls.ts";
import { readHistory } from "../store/messages.ts";
import type { Closing } from "./closing.ts";
import type { Gateway } from "./gateway.ts";
import type { Ground } from "./ground.ts";
import type { HubOptions } from "./hub_options.ts";
import { createContentTools } from "./content_tools.ts";
import { tellAskingServers } from "./asking_servers.ts";
import { openMcp } from "./mcp.ts";
import { McpApprovals } from "./mcp_approvals.ts";
import { openSkills, type Skills } from "./skills.ts";
import { openWorkspaces } from "./workspaces.ts";
import { resultBounds } from "./workspace_tools.ts";

/** Agents, their runs, and how replicas hear of them. */
export interface Agents {
  findAgent: FindAgent;
  /** All that agents can choose from now. */
  tools(): readonly Tool[];
  skills: Skills;
  /** Those of them that are the hub's own. */
  operations: readonly Tool[];
  start: StartOptions;
  live: LiveRuns;
  fanOut: FanOut;
  mcp: McpServers;
  /** What those have beside tools. */
  content: CallersContent;
  approvals: McpApprovals;
  questions: QuestionDesk;
  housekeeping: Housekeeping;
  /** Looks for runs to go on with, here and on all other replicas. */
  onClaimable(): void;
  /** Opens what a configuration has for its agents, before it counts. Throws `invalid_configuration` where that cannot be. */
  prepare(config: ResolvedConfig): Promise<void>;
}

/** What runs need beside the ground and the gateway. */
export interface AgentsOptions extends HubOptions {
  policyOf(keyId: string): KeyPolicy;
  holdKey: HoldKey;
  findKey: NonNullable<TakeOverOptions["findKey"]>;
  /** Whether runs are left to other replicas when the hub ends; else they are stopped at once. */
  mustLeaveRuns(): boolean;
  /** Tokens of MCP servers. */
  mcpAuth: McpAuth;
}

/** Longest wait of a run for servers that were never asked for their tools. */
export const FIRST_TURN_MS = 5000;

/** Joins operations, agents and runs, and begins to take over what lost replicas left. */
export async function openAgents(
  options: AgentsOptions,
  { ground, gateway, closing }: { ground: Ground; gateway: Gateway; closing: Closing },
): Promise<Agents> {
  const { loaded, clock, ids, random, log } = options;
  const { config } = loaded;
  const { db, metrics, postgres: { directUrl } } = ground;
  const operations = [
    ...createBuiltinOperations({
      readBlob: (ref, key) => readBlob(db, { ...key, blobId: ref }),
      readOutcome: (ref, key) => readOutcome(db, { ...key, toolCallId: ref }),
      readMessages: (key) => readHistory(db, key),
      results: resultBounds(config),
    }),
    ...await loadOperationModules(config.operations.modules, { folder: loaded.folder }),
  ];
  const { toolTimeoutMs, assumedOutputTokens } = config.limits;
  const findTokenizer = createTokenizers();
  const own = createRegistry({ operations, toolTimeoutMs, clock, log }).list();
  const workspaces = await openWorkspaces(options, {
    config,
    own,
    live: () => gateway.live.config,
  });
  const sample = createSampler({
    ...gateway,
    ids,
    defaultModel: () => gateway.live.config.defaultModel,
    epochOf: (runId) => live.get(runId)?.record.epoch ?? null,
  });
  const mcpOptions = { ...options, auth: options.mcpAuth, sample };
  const { mcp, use, taken } = await openMcp(mcpOptions, { ground, closing });
  const content = new CallersContent({ mcp, policyOf: options.policyOf });
  const toolsOfContent = createContentTools(content, { timeoutMs: toolTimeoutMs });
  const contentTools: typeof toolsOfContent = (agent) =>
    mcp.connections.length === 0 ? [] : toolsOfContent(agent);
  const approvals = new McpApprovals({ db, ids, clock, log, mcp, notify: config.database.notify });
  closing.add("mcp approvals", () => approvals.close());
  const skills = openSkills(options, {
    dir: config.skills?.dir,
    workspaces,
    agents: () => gateway.live.config.agents,
    toolNames: (agent) => find(agent).tools.map((tool) => tool.name),
    timeoutMs: toolTimeoutMs,
    results: resultBounds(config),
  });
  const prepare = async (caller: Principal, { name, model, handed }: AskedAgent) => {
    await taken();
    if (mcp.connections.length === 0) return await skills.dress(find(name, model));
    await mcp.settled(FIRST_TURN_MS);
    const callers = await mcp.toolsFor(caller, FIRST_TURN_MS, handed);
    return await skills.dress((callers === null ? find : joinAgents(callers))(name, model));
  };
  const joinAgents = (callers: CallersTools = mcp): FindAgent =>
    createAgents(gateway.live.config, {
      ...gateway,
      windowOf: (target, maxOutputTokens) =>
        windowOf(target, { findTokenizer, maxOutputTokens, assumedOutputTokens }),
      tools: [...own, ...callers.tools],
      ownTools: (agent) => [
        ...workspaces.toolsOf(agent),
        ...skills.toolsOf(agent),
        ...contentTools(agent),
      ],
      instructionsFor: (tools) => callers.instructionsFor(tools),
      release: callers.release,
      subAgent: (name, description) => subAgents.toolFor(name, description),
      prepare,
    });
  let find = joinAgents();
  const onChange = () => {
    find = joinAgents();
  };
  const told = new Set<string>();
  tellAskingServers(config, { told, log });
  gateway.live.onChange(() => {
    use(gateway.live.config.mcpServers);
    tellAskingServers(gateway.live.config, { told, log });
    onChange();
  });
  mcp.onChange(onChange);
  const findAgent: FindAgent = (name, model) => find(name, model);
  const owner = `${Deno.pid}-${ids.next("req").slice(4, 20)}`;
  const { leaseMs, retentionHours } = config.runs;
  const { notify: enabled } = config.database;
  const fanOut = new FanOut({ db, directUrl, enabled, metrics, clock, random, log });
  closing.add("fan-out", () => fanOut.close());
  const onCommitted = (runId: string) => fanOut.committed(runId);
  const onClaimable = () => {
    fanOut.left();
    housekeeping.lookForRuns();
  };
  const live = new LiveRuns({
    db,
    clock,
    log,
    leaseMs,
    usageOf(runId) {
      const { spool } = gateway;
      const [usage, calls] = [spool.takeOf(runId), spool.takeCallsOf(runId)];
      return { ...usage.length === 0 ? {} : { usage }, ...calls.length === 0 ? {} : { calls } };
    },
    onCommitted,
    onLeft: () => fanOut.left(),
    onPaused: () => housekeeping.lookForRuns(),
    onEnd({ fold, record: { agent } }) {
      const { finishReason } = fold.facts();
      metrics.run({ agent, finishReason: finishReason ?? "lost" });
    },
  });
  const leave = { graceMs: config.server.shutdownGraceMs, silentMs: config.runs.leaveAfterMs };
  const { approvalTimeoutMs, questionTimeoutMs: timeoutMs } = config.runs;
  const questions = new QuestionDesk({ db, key: ground.masterKey, log, timeoutMs });
  closing.add("runs", async () => {
    questions.close();
    await endRuns(live, { leave: options.mustLeaveRuns() ? leave : null, clock, log });
  });
  const handed = new HandedRuns({ clock, waitMs: approvalTimeoutMs });
  const start: StartOptions = {
    db,
    live,
    clock,
    ids,
    random,
    log,
    owner,
    leaseMs,
    approvalTimeoutMs,
    questions,
    handed,
    policyOf: options.policyOf,
    holdKey: options.holdKey,
    tracing: ground.tracing,
    observeContext: metrics.context,
    executeTool: createExecuteTool({
      db,
      ids,
      results: resultBounds(config),
      observe: metrics.toolCall,
    }),
  };
  const takeOver: TakeOverOptions = {
    start,
    findAgent,
    recordUsage: (row) => gateway.spool.add(row),
    findKey: options.findKey,
    onCommitted,
    onLeft: () => fanOut.left(),
  };
  const stop = {
    follow: { db, live, wakeups: fanOut.wakeups },
    onRequestElsewhere: (runId: string) => fanOut.requested(runId),
    onClaimable,
  };
  const subAgents = new SubAgents({ start, findAgent, ...stop });
  const housekeeping = startHousekeeping({
    db,
    clock,
    log,
    leaseMs,
    retentionHours,
    takeOver,
    sweepHanded: () => handed.sweep(),
    pruneCache: () => gateway.cache.prune(),
    stopDeserted: () => stopDeserted(stop),
    stopRunsOfEndedKeys: () => stopRunsOfEndedKeys(stop),
    onExpired: () => metrics.budget("expired"),
    onClaimable: () => fanOut.left(),
  });
  closing.add("housekeeping", () => housekeeping.stop());
  const tools = () => [...own, ...mcp.tools];
  return {
    findAgent,
    tools,
    skills,
    operations: own,
    start,
    live,
    fanOut,
    mcp,
    content,
    approvals,
    questions,
    housekeeping,
    onClaimable,
    prepare: workspaces.prepare,
  };
}
