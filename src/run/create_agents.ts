import type { ResolvedConfig } from "../config/load.ts";
import { HubError } from "../core/error.ts";
import type { Tool } from "../core/tool.ts";
import { createCallModel } from "../router/call_model.ts";
import type { OpenAnswer } from "../router/open_answer.ts";
import type { ResolveModel } from "../router/resolve.ts";
import type { RunnableAgent } from "./start_run.ts";

/** Finds an agent by name. Throws `not_found` with the names there are. */
export type FindAgent = (name: string) => RunnableAgent;

/** Makes the configured agents runnable: their models resolved, their tools chosen. */
export function createAgents(
  config: ResolvedConfig,
  options: { tools: readonly Tool[]; resolve: ResolveModel; openAnswer: OpenAnswer },
): FindAgent {
  const agents = new Map<string, RunnableAgent>();
  for (const [name, agent] of Object.entries(config.agents)) {
    const models = agent.models.length > 0 ? agent.models : [config.defaultModel];
    const publicModel = models[0] ?? config.defaultModel;
    const { models: _, description: __, systemPromptFile: ___, tools, systemPrompt, ...rest } =
      agent;
    agents.set(name, {
      settings: { ...rest, name, systemPrompt: systemPrompt ?? "" },
      model: publicModel,
      tools: chooseTools(options.tools, tools),
      callModel: ({ principal, requestId, sessionId, runId }) =>
        createCallModel(options.openAnswer, {
          targets: models.flatMap((model) => options.resolve(model)),
          facts: {
            requestId,
            tenantId: principal.tenantId,
            keyId: principal.keyId,
            kind: "run",
            publicModel,
            sessionId,
            runId,
          },
        }),
    });
  }
  return (name) => {
    const agent = agents.get(name);
    if (agent !== undefined) return agent;
    throw new HubError(
      "not_found",
      `There is no agent ${JSON.stringify(name.slice(0, 64))}; configured are ${
        [...agents.keys()].join(", ")
      }`,
      { param: "agent", clientCode: "agent_not_found" },
    );
  };
}

/** The tools whose full name fits one of the patterns; `*` stands for any text. Sorted by name. */
export function chooseTools(tools: readonly Tool[], patterns: readonly string[]): Tool[] {
  const fits = patterns.map((pattern) =>
    new RegExp(
      `^${
        pattern.split("*").map((text) => text.replace(/[\\^$.|?+()[\]{}]/g, "\\$&")).join(".*")
      }$`,
    )
  );
  return tools.filter((tool) => fits.some((fit) => fit.test(tool.name)))
    .sort((a, b) => a.name < b.name ? -1 : 1);
}
