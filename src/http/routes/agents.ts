import { Type } from "@sinclair/typebox";
import type { Agent } from "../../config/agent_schema.ts";
import { allows, type KeyPolicy } from "../../policy/key_policy.ts";
import { assertAgent } from "../../policy/may_call.ts";
import type { FindAgent } from "../../run/create_agents.ts";
import { listBody, listSchema } from "../list_body.ts";
import { jsonReply } from "../reply.ts";
import { defineRoute, type Route } from "../route.ts";

/** What the agent routes need. */
export interface AgentsOptions {
  /** Those that count now. */
  agents(): Readonly<Record<string, Agent>>;
  findAgent: FindAgent;
  policyOf(keyId: string): KeyPolicy;
}

const AgentBody = Type.Object({
  name: Type.String(),
  description: Type.Union([Type.String(), Type.Null()]),
  model: Type.String({ description: "The model that is asked first" }),
});

const ToolBody = Type.Object({
  name: Type.String(),
  description: Type.String(),
  effect: Type.String({ description: "pure, idempotent or effect" }),
  risk: Type.String({ description: "low, medium or high" }),
  approval: Type.String({
    description: "never; ask, session or always: a person is asked before it runs",
  }),
});

/** Agents that a key may run, and their tools. */
export function agentRoutes({ agents, findAgent, policyOf }: AgentsOptions): Route[] {
  const show = (name: string) => ({
    name,
    description: agents()[name]?.description ?? null,
    model: findAgent(name).model,
  });
  return [
    defineRoute({
      method: "GET",
      path: "/v1/agents",
      auth: "user",
      tag: "agents",
      summary: "Agents that the key may run",
      responses: {
        200: {
          description: "The agents, by name",
          schema: listSchema(AgentBody, { formerly: "agents" }),
        },
      },
      handle({ principal: { keyId } }) {
        const { agents: names } = policyOf(keyId);
        const allowed = Object.keys(agents()).filter((name) => allows(names, name)).sort();
        return jsonReply(listBody(allowed.map(show), { formerly: "agents" }));
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/agents/:name",
      auth: "user",
      tag: "agents",
      summary: "One agent, and the tools that it has for this key",
      params: Type.Object({ name: Type.String({ maxLength: 64 }) }),
      responses: {
        200: {
          description: "The agent",
          schema: Type.Object({ ...AgentBody.properties, tools: Type.Array(ToolBody) }),
        },
        404: { description: "There is no such agent" },
      },
      async handle({ params: { name }, principal }) {
        assertAgent(policyOf(principal.keyId), name);
        const found = findAgent(name);
        const agent = await found.prepare?.(principal, null) ?? found;
        try {
          const tools = agent.tools.map(({ name, description, effect, risk, approval }) => ({
            ...{ name, description, effect, risk, approval },
          }));
          return jsonReply({ ...show(name), tools });
        } finally {
          await agent.release?.();
        }
      },
    }),
  ];
}
