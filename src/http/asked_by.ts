import { tagsOf } from "../router/key_tags.ts";
import type { AnswerRequest } from "../router/open_answer.ts";
import type { CallFacts } from "../router/usage_fact.ts";
import { affinityOf } from "./affinity.ts";
import type { Call } from "./call.ts";

/** Whose call of a provider it is, for usage rows and budgets: a part of the API and a model of the hub. */
export function factsOf(
  { requestId, principal: { tenantId, keyId } }: Pick<Call, "requestId" | "principal">,
  asked: Pick<CallFacts, "kind" | "publicModel">,
): CallFacts {
  return { requestId, tenantId, keyId, ...asked };
}

/** All that a call of a provider takes from the request that asks for it. */
export function askedBy(
  call: Pick<Call, "requestId" | "principal" | "request" | "span">,
  asked: Pick<CallFacts, "kind" | "publicModel">,
): Required<Pick<AnswerRequest, "tags" | "affinity" | "facts" | "span">> {
  return {
    tags: tagsOf(call.principal),
    affinity: affinityOf(call.request),
    facts: factsOf(call, asked),
    span: call.span,
  };
}
