import { HubError } from "../../core/error.ts";
import type { JsonObject } from "../../core/json.ts";
import { wellFormedJson } from "../../core/well_formed.ts";
import { splitTargetName } from "../../config/model_name.ts";
import type { Target } from "../../providers/target.ts";
import type { AnswerRequest } from "../../router/open_answer.ts";
import type { ResolveModel } from "../../router/resolve.ts";
import { CHAT } from "../../wire/openai_chat/chat_wire.ts";
import { inputItems } from "../../wire/openai_responses/decode_input.ts";
import { toForeignItems } from "../../wire/openai_responses/kept_items.ts";
import { newResponse } from "../../wire/openai_responses/response_object.ts";
import {
  toChatRequest,
  type TranslatedRequest,
  translateRequest,
} from "../../wire/openai_responses/responses_request.ts";
import { createResponsesWire } from "../../wire/openai_responses/responses_wire.ts";
import {
  renameModel,
  type ResponsesRequestScan,
} from "../../wire/openai_responses/scan_request.ts";
import { findEarlier, type Owner, resolveReferences, type StateOptions } from "./response_state.ts";

/** How a request is answered, whichever target does it. */
export interface ResponsePlan {
  scan: ResponsesRequestScan;
  targets: readonly Target[];
  prepare: AnswerRequest["prepare"];
  /** The id that the hub gives. */
  id: string;
  /** The response before there is anything of it, when the hub makes it. */
  response: JsonObject;
  translated: TranslatedRequest | null;
  /** What this request says itself, without what came before. */
  input: JsonObject[];
  /** The last response object that the provider told of, when it speaks Responses. */
  seen(): JsonObject | null;
}

/** What planning needs. */
export interface PlanOptions extends StateOptions {
  resolve: ResolveModel;
  newId: () => string;
  now: () => number;
}

const decoder = new TextDecoder();
const encoder = new TextEncoder();

/** True for a target that serves Responses itself. */
export function isNative(target: Target): boolean {
  return target.endpoints.responses !== undefined;
}

/** Finds out who can answer, and how they are asked. Throws what the client did wrong. */
export async function planResponse(
  bytes: Uint8Array,
  { scan, owner }: { scan: ResponsesRequestScan; owner: Owner },
  options: PlanOptions,
): Promise<ResponsePlan> {
  if (scan.conversation !== null) {
    throw new HubError(
      "invalid_request",
      "conversation is not served here: use previous_response_id, or send the whole input",
      { param: "conversation" },
    );
  }
  if (scan.background && !scan.store) {
    throw new HubError("invalid_request", "A background response must be stored", {
      param: "store",
    });
  }
  const resolved = options.resolve(scan.model);
  const body = wellFormedJson(JSON.parse(decoder.decode(bytes))) as JsonObject;
  const earlier = await findEarlier(scan.previousResponseId, owner, options);
  const own = await resolveReferences(inputItems(body["input"] ?? []), owner, options);
  const items = [...earlier.history, ...own.items];
  const { keptBy } = earlier;
  const isKeptElsewhere = keptBy !== null || own.elsewhere;
  const onlyNative = isKeptElsewhere ? nativeOnly(resolved, { keptBy, scan }) : null;
  const { targets, translated } = onlyNative === null
    ? whoCan(resolved, () => translateRequest(body, items))
    : { targets: onlyNative, translated: null };
  const isPlain = !scan.background && earlier.history.length === 0 &&
    !own.changed && !own.items.some(isPacked);
  let seen: JsonObject | null = null;
  const wire = createResponsesWire((response) => seen = response);
  const native = (target: Target) =>
    isPlain
      ? renameModel(bytes, scan, target.model)
      : encoder.encode(JSON.stringify(toNative(body, { target, items, scan, keptBy })));
  const id = options.newId();
  return {
    scan,
    targets,
    id,
    response: newResponse(body, {
      id,
      createdAt: options.now(),
      model: scan.model,
      tools: translated?.tools.shown ?? (Array.isArray(body["tools"]) ? body["tools"] : []),
    }),
    translated,
    input: own.items,
    seen: () => seen,
    prepare(target) {
      if (isNative(target)) return { wire, body: native(target), hideUsage: false };
      if (translated === null) throw new HubError("internal_error", "A target came unplanned");
      const stream = scan.stream || scan.background;
      const chat = toChatRequest(translated, { target, stream });
      return { wire: CHAT, body: encoder.encode(JSON.stringify(chat)), hideUsage: false };
    },
  };
}

/** The targets that can say the request; those that only chat are left out when no chat can carry it. */
function whoCan(
  targets: readonly Target[],
  translate: () => TranslatedRequest,
): { targets: readonly Target[]; translated: TranslatedRequest | null } {
  if (targets.every(isNative)) return { targets, translated: null };
  try {
    return { targets, translated: translate() };
  } catch (error) {
    const native = targets.filter(isNative);
    if (native.length === 0) throw error;
    return { targets: native, translated: null };
  }
}

/** The targets at the provider that keeps what the request goes on from. */
function nativeOnly(
  targets: readonly Target[],
  { keptBy, scan }: { keptBy: string | null; scan: ResponsesRequestScan },
): readonly Target[] {
  const provider = keptBy === null ? null : splitTargetName(keptBy)?.provider ?? null;
  const found = targets.filter((target) =>
    isNative(target) && (provider === null || target.provider === provider)
  );
  const param = keptBy === null ? "input" : "previous_response_id";
  if (found.length === 0) {
    const where = provider === null ? "another provider" : `the provider ${provider}`;
    throw new HubError(
      "invalid_request",
      `${param} refers to what ${where} keeps, which does not serve ${
        scan.model.slice(0, 100)
      }: send the whole input`,
      { param },
    );
  }
  if (scan.background) {
    throw new HubError(
      "invalid_request",
      `${param} refers to what a provider keeps; a background response goes on from the hub's own`,
      { param },
    );
  }
  return found;
}

/** The request for a provider of Responses, where the hub keeps what it goes on from, or makes it in the background. */
function toNative(
  body: JsonObject,
  { target, items, scan, keptBy }: {
    target: Target;
    items: readonly JsonObject[];
    scan: ResponsesRequestScan;
    keptBy: string | null;
  },
): JsonObject {
  const { previous_response_id, background: _background, ...rest } = body;
  const request: JsonObject = {
    ...rest,
    model: target.model,
    input: toForeignItems(items),
    ...(keptBy === null ? {} : { previous_response_id: previous_response_id ?? null }),
  };
  if (!scan.background) return request;
  const include = Array.isArray(body["include"]) ? body["include"] : [];
  const encrypted = "reasoning.encrypted_content";
  return {
    ...request,
    stream: true,
    store: false,
    include: include.includes(encrypted) ? include : [...include, encrypted],
  };
}

/** Whether it is reasoning that the hub packed for somebody else. */
function isPacked({ encrypted_content: packed }: JsonObject): boolean {
  return typeof packed === "string" && packed.startsWith("lh1.");
}
