import { Type } from "@sinclair/typebox";
import type { Agent } from "../../config/agent_schema.ts";
import { HubError } from "../../core/error.ts";
import { createChooser } from "../../core/name_pattern.ts";
import { missingTools } from "../../operations/skills/skill_operations.ts";
import type { BadSkill, Shelved, Skill } from "../../operations/skills/skill_shelf.ts";
import type { KeyPolicy } from "../../policy/key_policy.ts";
import { assertAgent } from "../../policy/may_call.ts";
import type { FindAgent } from "../../run/create_agents.ts";
import { listBody, listSchema } from "../list_body.ts";
import { jsonReply } from "../reply.ts";
import { defineRoute, type Route } from "../route.ts";

/** What the route of skills needs. */
export interface SkillsOptions {
  /** Those that count now. */
  agents(): Readonly<Record<string, Agent>>;
  findAgent: FindAgent;
  listSkills(agent: Agent): Promise<Shelved>;
  policyOf(keyId: string): KeyPolicy;
}

const Tier = Type.Union([Type.Literal("managed"), Type.Literal("workspace")]);

const SkillBody = Type.Object({
  name: Type.String(),
  description: Type.String(),
  version: Type.Union([Type.String(), Type.Null()]),
  tier: Tier,
  tools: Type.Array(Type.String()),
  missingTools: Type.Array(Type.String(), {
    description: "Of its tools those that the agent has not",
  }),
  triggers: Type.Array(Type.String()),
});

/** What the skills of an agent are. */
export function skillRoutes({ agents, findAgent, listSkills, policyOf }: SkillsOptions): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/v1/skills",
      auth: "user",
      tag: "agents",
      summary: "Skills of an agent, and what cannot be used",
      query: Type.Object({
        agent: Type.Optional(Type.String({ maxLength: 64, description: "Default: default" })),
      }, { additionalProperties: false }),
      responses: {
        200: {
          description: "The skills by name, and why others are none",
          schema: Type.Object({
            ...listSchema(SkillBody, { formerly: "skills" }).properties,
            invalid: Type.Array(Type.Object({
              tier: Tier,
              path: Type.String({ description: "For admin keys whole, else the folder's name" }),
              problem: Type.String(),
            })),
          }),
        },
        404: { description: "There is no such agent" },
      },
      async handle({ query: { agent: name = "default" }, principal }) {
        assertAgent(policyOf(principal.keyId), name);
        const names = findAgent(name).tools.map((tool) => tool.name);
        const agent = agents()[name];
        if (agent === undefined) throw new HubError("not_found", `There is no agent ${name}`);
        const { skills, bad } = await listSkills(agent);
        return jsonReply({
          ...listBody(skills.map((skill) => toBody(skill, names)), { formerly: "skills" }),
          invalid: principal.role === "admin"
            ? bad.map(({ tier, path, problem }) => ({ tier, path, problem }))
            : shownToUsers(bad, agent),
        });
      },
    }),
  ];
}

function toBody(skill: Skill, toolNames: readonly string[]) {
  const { name, description, version = null, tier, tools, triggers } = skill;
  const missing = missingTools(skill, toolNames);
  return { name, description, version, tier, tools, missingTools: missing, triggers };
}

/** Those that the agent would have by the name of their folder, and nothing of where the operator keeps them. */
function shownToUsers(bad: readonly BadSkill[], { skills }: Agent) {
  const isChosen = createChooser(skills);
  return bad.flatMap(({ tier, folder, problem }) =>
    folder !== null && isChosen(folder) ? [{ tier, path: folder, problem }] : []
  );
}
