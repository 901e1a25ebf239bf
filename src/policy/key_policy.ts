import { type Static, Type } from "@sinclair/typebox";
import { TypeCompiler } from "@sinclair/typebox/compiler";
import { MAX_CACHE_SECONDS } from "../core/limits.ts";

const closed = { additionalProperties: false } as const;

const Micros = (description: string) =>
  Type.Optional(Type.Integer({ minimum: 0, maximum: 1e15, description }));

/** What may be spent in one period. */
export const Budget = Type.Object({
  hardMicros: Micros(
    "Millionths of a US dollar that are never exceeded: calls past it are answered 429",
  ),
  softMicros: Micros("Millionths of a US dollar from which on answers carry a warning"),
}, closed);
export type Budget = Static<typeof Budget>;

/** Budgets of a key, or of one agent's runs under it. Days and months are those of UTC. */
export const Budgets = Type.Object({
  daily: Type.Optional(Budget),
  monthly: Type.Optional(Budget),
  total: Type.Optional(Budget),
}, closed);
export type Budgets = Static<typeof Budgets>;

const Count = (description: string) =>
  Type.Optional(Type.Integer({ minimum: 1, maximum: 1e12, description }));

const Names = (description: string) =>
  Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 300 }), {
      maxItems: 200,
      uniqueItems: true,
      description,
    }),
  );

/** The name of an agent, as the configuration allows it. */
const AGENT = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$";

/** What a key may do; what is left out is not limited. */
export const KeyPolicy = Type.Object({
  models: Names("Models that it may call, by public name; `*` stands for any text"),
  agents: Names("Agents that it may run; `*` stands for any text"),
  tools: Names("Tools but agents that it may call over MCP, by full name; `*` stands for any text"),
  budgets: Type.Optional(Budgets),
  agentBudgets: Type.Optional(Type.Record(Type.String({ pattern: AGENT }), Budgets, {
    ...closed,
    description: "Budgets of single agents, beside those of the whole key",
  })),
  requestsPerMinute: Count("Model calls in a minute, over all replicas"),
  tokensPerMinute: Count("Tokens in a minute, over all replicas"),
  maxConcurrent: Count("Requests under way at one time, at each replica"),
  cacheSeconds: Type.Optional(Type.Integer({
    minimum: 0,
    maximum: MAX_CACHE_SECONDS,
    description:
      "How old an answer may be that its requests get from the response cache, unless they say; 0: none ever",
  })),
  sessions: Type.Optional(
    Type.Union([Type.Literal("own"), Type.Literal("owner"), Type.Literal("all")], {
      description:
        "Sessions, runs and stored responses that it reaches: its own, those of its owner's keys (default), or all of its tenant. Admin keys reach all",
    }),
  ),
  answers: Type.Optional(
    Type.Union([Type.Literal("own"), Type.Literal("owner"), Type.Literal("none")], {
      description:
        "Runs whose approvals, plans and questions it may answer: those it began, those of its owner, or none. Default: all that it reaches",
    }),
  ),
  withoutDatabase: Type.Optional(
    Type.Union([Type.Literal("refuse"), Type.Literal("serve")], {
      description:
        "What becomes of calls that want a budget or a rate counted while Postgres is away. Default: `limits.withoutDatabase`",
    }),
  ),
}, closed);
export type KeyPolicy = Static<typeof KeyPolicy>;

/** A policy without limits. */
export const FREE_POLICY: KeyPolicy = Object.freeze({});

/** What a key may do whose policy this hub does not understand: it may come from a newer one. */
export const NOTHING: KeyPolicy = Object.freeze({
  models: [],
  agents: [],
  sessions: "own",
  answers: "none",
});

const compiled = TypeCompiler.Compile(KeyPolicy);

/** The policy of a stored value; null for one that this hub does not understand, which must not be taken for none. */
export function readPolicy(value: unknown): KeyPolicy | null {
  return compiled.Check(value) ? value : null;
}

/** Whether a list of names, in which `*` stands for any text, has this one; a list that is left out has all. */
export function allows(names: readonly string[] | undefined, name: string): boolean {
  return names === undefined || names.some((pattern) => matches(pattern, name));
}

function matches(pattern: string, name: string): boolean {
  const [first = "", ...rest] = pattern.split("*");
  if (!name.startsWith(first)) return false;
  const last = rest.pop();
  if (last === undefined) return name === first;
  let at = first.length;
  for (const piece of rest) {
    const found = name.indexOf(piece, at);
    if (found === -1) return false;
    at = found + piece.length;
  }
  return name.length - at >= last.length && name.endsWith(last);
}

/** Whether calls under it must be counted in budgets. */
export function hasBudgets({ budgets, agentBudgets }: KeyPolicy): boolean {
  return hasBudget(budgets) || Object.values(agentBudgets ?? {}).some(hasBudget);
}

/** Whether calls under it must be counted before they are made. */
export function isMetered(policy: KeyPolicy): boolean {
  const { requestsPerMinute, tokensPerMinute } = policy;
  return requestsPerMinute !== undefined || tokensPerMinute !== undefined || hasBudgets(policy);
}

/** Whether calls of this agent, or of none, are held to models, tokens or money. */
export function hasLimits(policy: KeyPolicy, agent: string | undefined): boolean {
  const { models, tokensPerMinute, budgets, agentBudgets } = policy;
  return (models !== undefined && !models.includes("*")) || tokensPerMinute !== undefined ||
    hasBudget(budgets) || (agent !== undefined && hasBudget(agentBudgets?.[agent]));
}

/** What of a policy holds for calls that cost nothing. */
export function withoutMoney({ requestsPerMinute, withoutDatabase }: KeyPolicy): KeyPolicy {
  return {
    ...(requestsPerMinute === undefined ? {} : { requestsPerMinute }),
    ...(withoutDatabase === undefined ? {} : { withoutDatabase }),
  };
}

/** Whether a call of this agent, or of none, meets a budget that must never be exceeded. */
export function hasHardBudget(policy: KeyPolicy, agent: string | undefined): boolean {
  const own = agent === undefined ? undefined : policy.agentBudgets?.[agent];
  return [policy.budgets, own].some((budgets) =>
    Object.values(budgets ?? {}).some(({ hardMicros }) => hardMicros !== undefined)
  );
}

function hasBudget(budgets: Budgets | undefined): boolean {
  return Object.values(budgets ?? {}).some(
    ({ hardMicros, softMicros }) => hardMicros !== undefined || softMicros !== undefined,
  );
}

/** A window of a budget. */
export interface BudgetWindow {
  id: string;
  period: keyof Budgets;
  /** Members of the policy that lead to it. */
  path: readonly string[];
}

/** The windows that a call counts in at this moment: all three of the key, and of the agent if it has budgets. */
export function windowsOf(
  policy: KeyPolicy,
  { nowMs, agent }: { nowMs: number; agent: string | undefined },
): BudgetWindow[] {
  const day = new Date(nowMs).toISOString().slice(0, 10);
  const periods: [keyof Budgets, string][] = [
    ["daily", day],
    ["monthly", day.slice(0, 7)],
    ["total", "total"],
  ];
  const windows: BudgetWindow[] = periods.map(([period, id]) => ({
    id,
    period,
    path: ["budgets", period],
  }));
  if (agent === undefined || !hasBudget(policy.agentBudgets?.[agent])) return windows;
  const own = periods.map(([period, id]) => ({
    id: `agent ${agent} ${id}`,
    period,
    path: ["agentBudgets", agent, period],
  }));
  return [...windows, ...own];
}
