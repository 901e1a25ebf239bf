import type { Agent } from "../config/agent_schema.ts";
import type { ResolvedConfig } from "../config/load.ts";
import { HubError, toHubError } from "../core/error.ts";
import type { HandedCredentials } from "../core/handed_credentials.ts";
import { createChooser } from "../core/name_pattern.ts";
import type { ModelWindow } from "../core/tokenizer.ts";
import type { Principal, Tool } from "../core/tool.ts";
import type { ToolInstructions } from "../inference/agent_run.ts";
import { createWireNames } from "../operations/wire_names.ts";
import { costOf, type Target } from "../providers/target.ts";
import { createCallModel } from "../router/call_model.ts";
import { tagsOf } from "../router/key_tags.ts";
import type { OpenAnswer } from "../router/open_answer.ts";
import type { ResolveModel } from "../router/resolve.ts";
import { joinRoutes, type Route } from "../router/route.ts";
import { withApprovals } from "./approval_tier.ts";
import { offerTools } from "./offer_tools.ts";
import type { RunnableAgent } from "./runnable_agent.ts";

/** Finds an agent by name, on request with another model. Throws `not_found` with the names there are. */
export type FindAgent = (name: string, model?: string) => RunnableAgent;

/** An agent as somebody asked for it. */
export interface AskedAgent {
  name: string;
  model: string | undefined;
  /** What its caller handed over for this run. */
  handed: HandedCredentials | null;
}

/** Makes the configured agents runnable: their models resolved, their tools chosen. */
export function createAgents(
  config: ResolvedConfig,
  options: {
    tools: readonly Tool[];
    /** Tools that an agent has beside those, such as those for its workspace. */
    ownTools?(agent: Agent): readonly Tool[];
    /** An agent as a tool of others. */
    subAgent?(name: string, description?: string): Tool;
    resolve: ResolveModel;
    openAnswer: OpenAnswer;
    /** What a target can read, with an agent's limit of answers; nothing keeps watch over it without. */
    windowOf?(target: Target, maxOutputTokens: number | undefined): ModelWindow;
    instructionsFor?(tools: readonly Tool[]): readonly ToolInstructions[];
    /** Waits for tools that are still to come, and finds the agent again as a caller has it. */
    prepare?(caller: Principal, agent: AskedAgent): Promise<RunnableAgent>;
    /** Ends what the tools have for one run alone. */
    release?: (() => Promise<void>) | undefined;
  },
): FindAgent {
  const { prepare } = options;
  const create = (
    name: string,
    agent: Agent,
    { models, asked: askedModel }: { models: readonly string[]; asked?: string },
  ): RunnableAgent => {
    const { maxParallelTools, maxCallsPerAnswer } = config.limits;
    const { maxOfferedTools = config.limits.maxOfferedTools } = agent;
    const publicModel = models[0] ?? config.defaultModel;
    const { models: _, description: __, systemPromptFile: ___, tools: patterns, ...others } = agent;
    const { systemPrompt = "", approvals, workspace: ____, maxOfferedTools: _____, ...further } =
      others;
    const { skills: ______, agents: askable, whenBusy, ...rest } = further;
    const subAgents = askableAgents(name, askable, config).flatMap((one) =>
      options.subAgent?.(one, config.agents[one]?.description) ?? []
    );
    const chosen = [
      ...chooseTools([...options.tools, ...options.ownTools?.(agent) ?? []], patterns),
      ...subAgents,
    ];
    const { tools, offer } = offerTools(
      withApprovals(chosen, approvals),
      {
        patterns: [...patterns, ...subAgents.map((tool) => tool.name)],
        most: maxOfferedTools,
        toolChoice: rest.toolChoice,
      },
    );
    const { toWire } = createWireNames(tools.map((tool) => tool.name));
    const { windowOf } = options;
    return {
      settings: { ...rest, name, maxParallelTools, maxCallsPerAnswer, systemPrompt },
      model: publicModel,
      tools,
      hasNoTools: tools.length === 0 && patterns.length === 0,
      ...whenBusy === undefined ? {} : { whenBusy },
      ignoresTaint: approvals?.tainted === "allow",
      ...offer === undefined ? {} : { offer },
      instructions: options.instructionsFor?.(tools) ?? [],
      ...windowOf === undefined ? {} : {
        window: createWindowFinder(
          createTargetsFinder(models, options.resolve),
          (target) => windowOf(target, rest.maxOutputTokens),
        ),
      },
      ...prepare === undefined
        ? {}
        : { prepare: (caller, handed) => prepare(caller, { name, model: askedModel, handed }) },
      ...options.release === undefined ? {} : { release: options.release },
      costOf(usage) {
        const costs = models.flatMap((model) =>
          options.resolve(model).map(({ override }) => costOf(usage, override.pricing))
        );
        return costs.includes(null) ? null : Math.max(...costs.map(Number));
      },
      callModel: ({ principal, requestId, sessionId, runId, epoch, span = null }) =>
        createCallModel(options.openAnswer, {
          toWire,
          epoch,
          span,
          targets: createTargetsFinder(models, options.resolve),
          tags: tagsOf(principal),
          facts: {
            requestId,
            tenantId: principal.tenantId,
            keyId: principal.keyId,
            kind: "run",
            agent: name,
            publicModel,
            sessionId,
            runId,
          },
        }),
    };
  };
  const known = new Map<string, RunnableAgent>();
  return (name, model) => {
    const agent = config.agents[name];
    if (agent !== undefined) {
      if (model !== undefined) {
        options.resolve(model);
        return create(name, agent, { models: [model], asked: model });
      }
      const models = agent.models.length > 0 ? agent.models : [config.defaultModel];
      const before = known.get(name) ?? create(name, agent, { models });
      known.set(name, before);
      return before;
    }
    throw new HubError(
      "not_found",
      `There is no agent ${JSON.stringify(name.slice(0, 64))}; configured are ${
        Object.keys(config.agents).join(", ")
      }`,
      { param: "agent", clientCode: "agent_not_found" },
    );
  };
}

/** The agents that an agent may ask by its patterns: never itself. */
function askableAgents(
  name: string,
  patterns: readonly string[],
  { agents }: Pick<ResolvedConfig, "agents">,
): string[] {
  if (patterns.length === 0) return [];
  const isChosen = createChooser(patterns);
  return Object.keys(agents).filter((one) => one !== name && isChosen(one)).sort();
}

/** The window of the target that is asked first: what comes after it may refuse, and the run knows what to do then. */
function createWindowFinder(
  targets: () => Route,
  windowOf: (target: Target) => ModelWindow,
): () => ModelWindow {
  return () => {
    const [first] = targets();
    if (first === undefined) throw new HubError("model_not_found", "The agent's model is gone");
    return windowOf(first);
  };
}

/** Finds the targets for each call of a run anew; when a model is gone since, those that it had. */
function createTargetsFinder(models: readonly string[], resolve: ResolveModel): () => Route {
  const find = () => joinRoutes(models.map((model) => resolve(model)));
  let last = find();
  return () => {
    try {
      last = find();
    } catch (error) {
      if (toHubError(error).code !== "model_not_found") throw error;
    }
    return last;
  };
}

/** The tools that patterns over full names choose, sorted by name; see `createChooser`. */
export function chooseTools(tools: readonly Tool[], patterns: readonly string[]): Tool[] {
  const isChosen = createChooser(patterns);
  return tools.filter(({ name }) => isChosen(name)).sort((a, b) => a.name < b.name ? -1 : 1);
}
