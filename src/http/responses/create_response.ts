import type { AbortLike } from "../../core/abort.ts";
import { accessOf, belongingOf } from "../../core/ownership.ts";
import { joinBytes } from "../../core/join_bytes.ts";
import type { BackgroundResponses } from "../../run/background_responses.ts";
import { REPLAYED_HEADERS } from "../../run/idempotent_answers.ts";
import { ResponseFailure } from "../../wire/openai_responses/failure.ts";
import { toKeptInput } from "../../wire/openai_responses/kept_items.ts";
import {
  type ResponsesRequestScan,
  scanResponsesRequest,
} from "../../wire/openai_responses/scan_request.ts";
import { askedBy } from "../asked_by.ts";
import type { Call } from "../call.ts";
import { idempotencyFacts, readIdempotencyKey } from "../idempotency_key.ts";
import type { Reply } from "../reply.ts";
import { type NotedAnswer, readWholeAnswer } from "../routes/completion_reply.ts";
import { replyCompletion } from "../routes/reply_completion.ts";
import { backgroundReply } from "./background_reply.ts";
import { type Asking, openEvents, openResponse } from "./open_response.ts";
import { planResponse, type ResponsePlan } from "./response_plan.ts";
import type { ResponsesOptions } from "./responses_options.ts";

const PLACE = "responses";
const JSON_TYPE = "application/json";

/** Answers a request for a response. */
export async function createResponse(call: Call, options: ResponsesOptions): Promise<Reply> {
  const bytes = await call.readBody();
  const scan = await scanResponsesRequest(bytes);
  const access = accessOf(call.principal);
  const owner = { tenantId: access.tenantId, ...belongingOf(access), keyId: access.keyId };
  const now = () => Math.floor(call.clock.now() / 1000);
  const newId = () => `resp_${options.ids.next("req").slice("req_".length)}`;
  const opening = { ...options, now, newId };
  const plan = await planResponse(bytes, { scan, access }, opening);
  const asker = askedBy(call, { kind: "proxy", publicModel: scan.model });
  const asking = (signal: AbortLike): Asking => ({
    owner,
    ...asker,
    signal,
    bytes: bytes.length,
    affinity: asker.affinity ?? scan.promptCacheKey,
  });
  if (scan.background) {
    const begin = (signal: AbortLike) => openEvents(plan, asking(signal), opening);
    return await inBackground(call, { plan, begin, options });
  }
  const begin = (signal: AbortLike) => openResponse(plan, asking(signal), opening);
  return await answerNow(call, { scan, plan, begin, options });
}

interface Answering {
  scan: ResponsesRequestScan;
  plan: ResponsePlan;
  begin(signal: AbortLike): Promise<NotedAnswer>;
  options: ResponsesOptions;
}

async function answerNow(
  call: Call,
  { scan, plan, begin, options }: Answering,
): Promise<Reply> {
  const { keepaliveMs, answers, cache, ids } = options;
  const { model, stream } = scan;
  const createdAt = Math.floor(call.clock.now() / 1000);
  return await replyCompletion(call, {
    answers,
    cache,
    targets: plan.targets,
    // What can be found again is its key's own, and so is what it goes on from.
    repeatable: !scan.store && scan.previousResponseId === null,
    keepaliveMs,
    model,
    stream,
    asUi: false,
    ui: { ids },
    place: PLACE,
    asked: "",
    failures: new ResponseFailure({ id: plan.id, createdAt, model }),
    begin,
  });
}

interface InBackground {
  plan: ResponsePlan;
  begin: Parameters<BackgroundResponses["start"]>[0]["begin"];
  options: ResponsesOptions;
}

/** The client gets the response as it stands in the queue, or its events; it is made whether the client stays or not. */
async function inBackground(call: Call, { plan, begin, options }: InBackground): Promise<Reply> {
  const { background, answers } = options;
  const access = accessOf(call.principal);
  const { tenantId, keyId } = access;
  const start = async (): Promise<Uint8Array> => {
    const queued = { ...plan.response, status: "queued" };
    await background.start({
      key: { tenantId, ...belongingOf(access), keyId, responseId: plan.id },
      queued,
      input: toKeptInput(plan.input, plan.id),
      previousId: plan.scan.previousResponseId,
      begin,
    });
    return new TextEncoder().encode(JSON.stringify(queued));
  };
  const key = readIdempotencyKey(call);
  if (key === null) return backgroundReply(call, { plan, queued: await start(), options });
  const facts = await idempotencyFacts(call, { key, place: PLACE, asked: "" });
  const reader = answers.open({
    ...facts,
    tenantId,
    async begin() {
      const pieces: (Uint8Array | null)[] = [await start(), null];
      return {
        head: { contentType: JSON_TYPE, headers: {} },
        failure: null,
        read: () => Promise.resolve(pieces.shift() ?? null),
        cancel() {},
      };
    },
  });
  try {
    await reader.begun;
    const queued = joinBytes([await readWholeAnswer(reader)]);
    const headers = reader.replayed ? REPLAYED_HEADERS : {};
    return backgroundReply(call, { plan, queued, options, headers });
  } finally {
    reader.close();
  }
}
