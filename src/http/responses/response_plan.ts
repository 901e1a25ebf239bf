import { HubError } from "../../core/error.ts";
import type { JsonObject } from "../../core/json.ts";
import { encodeJsonInSteps } from "../../core/large_json/encode_json.ts";
import { parsePlainJson } from "../../core/large_json/json_in_steps.ts";
import type { Access } from "../../core/ownership.ts";
import { splitTargetName } from "../../config/model_name.ts";
import type { Target } from "../../providers/target.ts";
import type { AnswerRequest } from "../../router/open_answer.ts";
import type { ResolveModel } from "../../router/resolve.ts";
import type { Route } from "../../router/route.ts";
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
import {
  findEarlier,
  type KeptBy,
  resolveReferences,
  type StateOptions,
} from "./response_state.ts";

/** How a request is answered, whichever target does it. */
export interface ResponsePlan {
  scan: ResponsesRequestScan;
  targets: Route;
  prepare: AnswerRequest["prepare"];
  /** The id that the hub gives. */
  id: string;
  /** The response before there is anything of it, when the hub makes it. */
  response: JsonObject;
  translated: TranslatedRequest | null;
  /** What this request says itself, without what came before. */
  input: JsonObject[];
  /** The last response object that this target told of, when it speaks Responses. */
  seen(target: Target): JsonObject | null;
}

type Prepared = Awaited<ReturnType<ResponsePlan["prepare"]>>;

/** The target with the key of its pool that has this number; the target itself without such a key. */
export function laneOf(target: Target, lane: number | null): Target {
  return target.lanes?.find(({ key }) => key?.number === lane) ?? target;
}

/** What planning needs. */
export interface PlanOptions extends StateOptions {
  resolve: ResolveModel;
  newId: () => string;
  now: () => number;
}

/** True for a target that serves Responses itself. */
export function isNative(target: Target): boolean {
  return target.endpoints.responses !== undefined;
}

/** Finds out who can answer, and how they are asked. Throws what the client did wrong. */
export async function planResponse(
  bytes: Uint8Array,
  { scan, access }: { scan: ResponsesRequestScan; access: Access },
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
  const body = await parsePlainJson(bytes, { reading: "mended" }) as JsonObject;
  const earlier = await findEarlier(scan.previousResponseId, access, options);
  const own = await resolveReferences(inputItems(body["input"] ?? []), access, options);
  const items = [...earlier.history, ...own.items];
  const { keptBy } = earlier;
  const isKeptElsewhere = keptBy !== null || own.elsewhere;
  const targets: Route = isKeptElsewhere ? nativeOnly(resolved, { keptBy, scan }) : resolved;
  const translation = translate(targets, () => translateRequest(body, items));
  const translated = "refusal" in translation ? null : translation;
  const isPlain = !scan.background && earlier.history.length === 0 &&
    !own.changed && !own.items.some(isPacked);
  const seen = new Map<string, JsonObject>();
  const prepared = new Map<string, Prepared>();
  const native = async (target: Target) =>
    isPlain
      ? renameModel(bytes, scan, target.model)
      : await encodeJsonInSteps(toNative(body, { target, items, scan, keptBy }));
  const chat = async (target: Target) => {
    if ("refusal" in translation) throw translation.refusal;
    const stream = scan.stream || scan.background;
    return await encodeJsonInSteps(toChatRequest(translation, { target, stream }));
  };
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
    seen: ({ id }) => seen.get(id) ?? null,
    async prepare(target) {
      const before = prepared.get(target.id);
      if (before !== undefined) return before;
      const made = isNative(target)
        ? {
          wire: createResponsesWire((told) => seen.set(target.id, told)),
          body: await native(target),
        }
        : { wire: CHAT, body: await chat(target) };
      const whole = { ...made, hideUsage: false };
      prepared.set(target.id, whole);
      return whole;
    },
  };
}

/** The request as chats carry it, unless nobody is to be asked in one; or why they cannot, when others can. */
function translate(
  targets: Route,
  make: () => TranslatedRequest,
): TranslatedRequest | { refusal: unknown } {
  if (targets.every(isNative)) return { refusal: null };
  try {
    return make();
  } catch (refusal) {
    if (targets.some(isNative)) return { refusal };
    throw refusal;
  }
}

/** The targets at the provider that keeps what the request goes on from. */
function nativeOnly(
  targets: Route,
  { keptBy, scan }: { keptBy: KeptBy | null; scan: ResponsesRequestScan },
): Route {
  const provider = keptBy === null ? null : splitTargetName(keptBy.target)?.provider ?? null;
  const found = targets
    .filter((target) => isNative(target) && (provider === null || target.provider === provider))
    .map((target) => laneOf(target, keptBy?.lane ?? null));
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
    keptBy: KeptBy | null;
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
