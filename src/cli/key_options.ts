import type { parseArgs } from "node:util";
import { HubError } from "../core/error.ts";
import type { JsonObject } from "../core/json.ts";
import type { Budgets } from "../policy/key_policy.ts";
import type { KeyChange } from "../store/keys.ts";

/** What the forms of `loophub keys` take. */
export const KEY_OPTIONS = {
  role: { type: "string" },
  owner: { type: "string" },
  tag: { type: "string", multiple: true },
  expires: { type: "string" },
  model: { type: "string", multiple: true },
  agent: { type: "string", multiple: true },
  tool: { type: "string", multiple: true },
  budget: { type: "string", multiple: true },
  soft: { type: "string", multiple: true },
  rpm: { type: "string" },
  tpm: { type: "string" },
  concurrent: { type: "string" },
  cache: { type: "string" },
  sessions: { type: "string" },
  answers: { type: "string" },
  grace: { type: "string" },
  name: { type: "string" },
  chat: { type: "string" },
  ttl: { type: "string" },
} as const;

/** The options as they were given. */
export type KeyOptions = ReturnType<typeof parseArgs<{ options: typeof KEY_OPTIONS }>>["values"];

const UNITS: Readonly<Record<string, number>> = {
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 24 * 3_600_000,
};

/** Milliseconds of `90s`, `15m`, `24h`, `30d`. Throws `invalid_request`. */
export function parseSpan(text: string): number {
  const [, count, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  const ms = Number(count) * (UNITS[unit ?? ""] ?? NaN);
  if (Number.isFinite(ms)) return ms;
  throw wrong(text, "a time such as 90s, 15m, 24h or 30d");
}

/** What the options change in a key; a policy begins with the one that it has. Throws `invalid_request`. */
export function keyChange(options: KeyOptions, policy: JsonObject, nowMs: number): KeyChange {
  const { owner, tag, expires } = options;
  const next = policyOf(options, policy);
  return {
    ...(options.name === undefined ? {} : { name: options.name }),
    ...(owner === undefined ? {} : { owner: owner === "" ? null : owner }),
    ...(tag === undefined ? {} : { tags: tag }),
    ...(expires === undefined ? {} : { expiresAt: parseMoment(expires, nowMs) }),
    ...(next === policy ? {} : { policy: next }),
  };
}

/** A moment: RFC 3339, a date, or a span from now; `never` is none. */
function parseMoment(text: string, nowMs: number): number | null {
  if (text === "never") return null;
  if (/^\d+[smhd]$/.test(text)) return nowMs + parseSpan(text);
  const ms = /^\d{4}-\d{2}-\d{2}/.test(text) ? Date.parse(text) : NaN;
  if (Number.isFinite(ms)) return ms;
  throw wrong(text, "a date, a time as RFC 3339, a span such as 30d, or never");
}

function policyOf(options: KeyOptions, policy: JsonObject): JsonObject {
  const changes: JsonObject = {};
  if (options.model !== undefined) changes["models"] = options.model;
  if (options.agent !== undefined) changes["agents"] = options.agent;
  if (options.tool !== undefined) changes["tools"] = options.tool;
  const counts = [
    ["requestsPerMinute", options.rpm],
    ["tokensPerMinute", options.tpm],
    ["maxConcurrent", options.concurrent],
  ] as const;
  for (const [name, text] of counts) {
    if (text !== undefined) changes[name] = parseCount(text);
  }
  if (options.sessions !== undefined) {
    changes["sessions"] = oneOf(options.sessions, ["own", "owner", "all"]);
  }
  if (options.answers !== undefined) {
    changes["answers"] = oneOf(options.answers, ["own", "owner", "none"]);
  }
  if (options.cache !== undefined) changes["cacheSeconds"] = parseSpan(options.cache) / 1000;
  const budgets = { ...policy["budgets"] as Budgets | undefined };
  for (const text of options.budget ?? []) addBudget(budgets, text, "hardMicros");
  for (const text of options.soft ?? []) addBudget(budgets, text, "softMicros");
  if (Object.keys(budgets).length > 0) changes["budgets"] = budgets as JsonObject;
  if (Object.keys(changes).length === 0) return policy;
  return { ...policy, ...changes };
}

/** `daily=1.50`: a period and US dollars. */
function addBudget(budgets: Budgets, text: string, kind: "hardMicros" | "softMicros"): void {
  const [, period, usd] = /^(daily|monthly|total)=(\d{1,9}(?:\.\d{1,6})?)$/.exec(text) ?? [];
  if (period !== "daily" && period !== "monthly" && period !== "total") {
    throw wrong(text, "daily, monthly or total, =, and US dollars: daily=1.50");
  }
  budgets[period] = { ...budgets[period], [kind]: Math.round(Number(usd) * 1e6) };
}

function oneOf(text: string, words: readonly string[]): string {
  if (words.includes(text)) return text;
  throw wrong(text, words.join(", "));
}

function parseCount(text: string): number {
  if (/^[1-9]\d{0,14}$/.test(text)) return Number(text);
  throw wrong(text, "a whole number from 1 on");
}

function wrong(got: string, wanted: string): HubError {
  return new HubError("invalid_request", `got ${JSON.stringify(got)}, wanted ${wanted}`);
}
