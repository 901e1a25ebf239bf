import { assertAgent, assertMayCall } from "../policy/may_call.ts";
import type { FindAgent } from "../run/create_agents.ts";
import type { RunnableAgent, StartOptions } from "../run/runnable_agent.ts";

/**
 * The agent that a request asks for, with another model where it names one. Throws `permission_denied` for an agent that
 * the key may not run, or a model that it may not call itself, then `not_found` and `model_not_found`.
 */
export function askedAgent(
  { agent, model, keyId }: { agent: string; model?: string | undefined; keyId: string },
  { findAgent, start: { policyOf } }: {
    findAgent: FindAgent;
    start: Pick<StartOptions, "policyOf">;
  },
): RunnableAgent {
  const policy = policyOf?.(keyId) ?? {};
  assertAgent(policy, agent);
  if (model !== undefined) {
    assertMayCall(policy, { kind: "proxy", publicModel: model });
  }
  return findAgent(agent, model);
}
