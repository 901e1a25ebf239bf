import type { AbortLike } from "../core/abort.ts";
import type { CostBound } from "../core/cost.ts";
import { HubError, toHubError } from "../core/error.ts";
import type { Hold, MeteredCall } from "../core/metered_call.ts";
import { boundPromptTokens } from "../core/prompt_bound.ts";
import { requestFieldsOf } from "../providers/request_fields.ts";
import type { Target } from "../providers/target.ts";
import type { AskedSize } from "../wire/field_reader.ts";
import { assertFieldName, assertNoQuery, FIELD_NOT_ALLOWED } from "../wire/field_refusals.ts";
import { readFields } from "../wire/read_fields.ts";
import type { Prepared } from "./attempt_options.ts";
import type { CallFacts } from "./usage_fact.ts";

/** Gives leave to call. */
export interface Meter {
  /** Null when nothing of the call is counted, which takes no time; throws when its key must not make it. */
  enter(facts: CallFacts): MeteredCall | null;
  /** Tokens of an answer whose request sets no limit. */
  readonly assumedOutputTokens: number;
}

/** What another target may have: a lower price, one at all, a limit, a field that means nothing there. */
const OF_TARGET: ReadonlySet<string> = new Set([
  FIELD_NOT_ALLOWED,
  "insufficient_quota",
  "unknown_price",
  "unbounded_cost",
]);
/** No answer is longer; a request may say what it likes. */
const MOST_OUTPUT_TOKENS = 1e12;

/** Asks for leave for one try. A failure that another target may not have (a lower price, a field that it knows) is returned. */
export async function holdFor(
  metered: MeteredCall,
  { target, usageId, prepared, choices, meter, facts, signal }: {
    target: Target;
    usageId: string;
    prepared: Prepared;
    choices: number;
    meter: Meter;
    facts: CallFacts;
    signal: AbortLike;
  },
): Promise<{ hold: Hold } | { failure: HubError }> {
  try {
    const asked = await readAsked(prepared, { target, facts, isLimited: metered.isLimited });
    const size = {
      requestBytes: prepared.body.length,
      promptTokens: boundPromptTokens(prepared.body),
      ...sizeOf(asked, { target, choices, meter, bound: facts.bound }),
    };
    const price = target.override.pricing;
    return { hold: await metered.hold({ size, price, target: target.id, usageId, signal }) };
  } catch (error) {
    const failure = toHubError(error);
    if (OF_TARGET.has(failure.clientCode)) return { failure };
    throw failure;
  }
}

/** What the request asks for, as the target gets it; null where there is nothing to read. Rejects for fields that are refused. */
async function readAsked(
  { wire, body, carried }: Prepared,
  { target, facts, isLimited }: { target: Target; facts: CallFacts; isLimited: boolean },
): Promise<AskedSize | null> {
  const part = wire.name === "pass" ? facts.kind : wire.name;
  const rules = requestFieldsOf(part, target.kind ?? "openai-compatible");
  if (rules === null) return null;
  const { allowedFields: allowed } = target.quirks;
  // What a run asks for is the operator's own.
  const isStrict = isLimited && facts.kind !== "run";
  if (isStrict && carried?.method === "POST") {
    assertNoQuery(carried.path.split("?", 2)[1] ?? "", allowed);
    carried.form?.watch((name) => assertFieldName(name, rules, allowed));
  }
  return carried?.form !== undefined || body.length === 0
    ? null
    : await readFields(body, rules, { isStrict, allowed });
}

function sizeOf(
  asked: AskedSize | null,
  { target, choices, meter, bound }: {
    target: Target;
    choices: number;
    meter: Meter;
    bound: CostBound | undefined;
  },
): { outputTokens: number; isLimited: boolean } {
  const { maxOutputTokens } = target.override;
  const own = bound === "limit" ? null : asked;
  const isAsked = own?.isLimited === true;
  const least = isAsked ? 0 : maxOutputTokens ?? meter.assumedOutputTokens;
  const tokens = Math.max(own?.limit ?? 0, least) + (own?.added ?? 0);
  // A request without an answer in tokens has no choices.
  const answers = choices === 0 ? 0 : Math.max(choices, asked?.answers ?? 1);
  return {
    outputTokens: Math.min(MOST_OUTPUT_TOKENS, tokens * answers),
    isLimited: isAsked || maxOutputTokens !== undefined,
  };
}
