import type { CostBound } from "../core/cost.ts";
import { HubError } from "../core/error.ts";
import { NO_MODEL } from "../providers/target.ts";
import { UNBOUNDED_COST } from "./budget_words.ts";
import { allows, hasHardBudget, type KeyPolicy } from "./key_policy.ts";

/** What of a call its key's policy is asked about. */
export interface Asking {
  /** `run`, or the part of the API that the call is for. */
  kind: string;
  publicModel: string;
  agent?: string;
  /** `tokens` unless told. */
  bound?: CostBound;
}

/** Throws `permission_denied` when the policy does not have the call. */
export function assertMayCall(
  policy: KeyPolicy,
  { kind, publicModel, agent, bound }: Asking,
): void {
  if (kind === "run") return assertAgent(policy, agent ?? "");
  assertModel(policy, publicModel);
  if (bound !== "none") return;
  const { tokensPerMinute } = policy;
  if (tokensPerMinute === undefined && !hasHardBudget(policy, agent)) return;
  const [limit, unit] = tokensPerMinute === undefined
    ? ["a hard budget", "cost"]
    : ["a limit of tokens", "tokens"];
  throw new HubError(
    "permission_denied",
    `This API key has ${limit}: requests whose ${unit} cannot be calculated before they are sent are not allowed`,
    { clientCode: UNBOUNDED_COST },
  );
}

/** Throws `permission_denied` when the policy does not have the agent. */
export function assertAgent(policy: KeyPolicy, agent: string): void {
  if (allows(policy.agents, agent)) return;
  throw new HubError(
    "permission_denied",
    `This API key may not run the agent ${JSON.stringify(agent.slice(0, 64))}`,
    { param: "agent" },
  );
}

function assertModel({ models }: KeyPolicy, model: string): void {
  if (model !== NO_MODEL) {
    if (allows(models, model)) return;
    throw new HubError(
      "permission_denied",
      `This API key may not call the model ${JSON.stringify(model.slice(0, 100))}`,
      { param: "model" },
    );
  }
  // Patterns match names. A request without a name of a model needs `NO_MODEL` or `*` in the policy.
  if (models === undefined || models.includes(NO_MODEL) || models.includes("*")) return;
  throw new HubError(
    "permission_denied",
    `This API key may call certain models only, and this request names no model: its policy must list ${
      JSON.stringify(NO_MODEL)
    } to allow it`,
    { param: "model" },
  );
}
