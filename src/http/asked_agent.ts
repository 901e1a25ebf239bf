import { assertMayCall } from "../policy/may_call.ts";
import type { FindAgent } from "../run/create_agents.ts";
import type { RunnableAgent, StartOptions } from "../run/runnable_agent.ts";

/**
 * The agent that a request asks for, with another model where it names one. Throws `not_found`, `model_not_found`, and
 * `permission_denied` for a model that the key may not call itself.
 */
export function askedAgent(
  { agent, model, keyId }: { agent: string; model?: string | undefined; keyId: string },
  { findAgent, start: { policyOf } }: {
    findAgent: FindAgent;
    start: Pick<StartOptions, "policyOf">;
  },
): RunnableAgent {
  if (model !== undefined) {
    assertMayCall(policyOf?.(keyId) ?? {}, { kind: "proxy", publicModel: model });
  }
  return findAgent(agent, model);
}
