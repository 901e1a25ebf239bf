import type { AbortLike } from "../../core/abort.ts";
import { toHubError } from "../../core/error.ts";
import type { JsonObject } from "../../core/json.ts";
import { encodeJsonInSteps } from "../../core/large_json/encode_json.ts";
import type { Answer, AnswerRequest, OpenAnswer } from "../../router/open_answer.ts";
import type { EventAnswer } from "../../run/background_responses.ts";
import type { KeptResponses } from "../../run/kept_responses.ts";
import type { NewResponse } from "../../store/responses.ts";
import { outputOf, toKeptInput } from "../../wire/openai_responses/kept_items.ts";
import { createEventReader } from "../../wire/openai_responses/native_events.ts";
import type { ResponseWriterOptions } from "../../wire/openai_responses/response_writer.ts";
import {
  type TranslatedAnswer,
  translateStream,
  translateWhole,
} from "../../wire/openai_responses/translate_answer.ts";
import { toFrame } from "../../wire/translated_events.ts";
import { type NotedAnswer, readWholeAnswer } from "../routes/completion_reply.ts";
import { isNative, type ResponsePlan } from "./response_plan.ts";

/** What opening a response needs. */
export interface OpenResponseOptions {
  openAnswer: OpenAnswer;
  kept: KeptResponses;
  now: () => number;
}

/** Who asks, and until when. */
export interface Asking
  extends Pick<AnswerRequest, "facts" | "span" | "bytes" | "tags" | "affinity"> {
  /** The maker's key, and whose what it makes is. */
  owner: Pick<NewResponse, "tenantId" | "keyId" | "owner">;
  signal: AbortLike;
}

const encoder = new TextEncoder();
const ENDED: ReadonlySet<unknown> = new Set(["completed", "incomplete"]);

function open(plan: ResponsePlan, asking: Asking, { openAnswer }: OpenResponseOptions) {
  const { targets, prepare, scan } = plan;
  const { owner: _owner, ...routed } = asking;
  return openAnswer({ ...routed, targets, prepare, stream: scan.stream || scan.background });
}

/** The answer in the client's dialect: a provider's own bytes, or events made of a chat. What may be found again is kept. */
export async function openResponse(
  plan: ResponsePlan,
  asking: Asking,
  options: OpenResponseOptions,
): Promise<NotedAnswer> {
  const answer = await open(plan, asking, options);
  const { target } = answer.attempt;
  if (isNative(target)) return keptElsewhere(answer, { plan, asking, options });
  const { translated } = plan;
  const leftOut = translated?.tools.leftOut ?? [];
  const notes: Record<string, string> = leftOut.length === 0
    ? {}
    : { "x-loophub-left-out": leftOut.join(", ") };
  const keep = (response: JsonObject) => keepOwn(response, { plan, asking, options });
  const writing = writerOptions(plan, answer, options);
  if (!plan.scan.stream) {
    const { response, shown } = await translateWhole(await readWholeAnswer(answer), writing);
    keep(response);
    return { ...answer, notes, read: once(await encodeJsonInSteps(shown)) };
  }
  const events = translateStream(() => answer.read(), writing);
  return {
    ...answer,
    notes,
    async read() {
      const made = await nextEvents(events, answer);
      if (made === null) return null;
      if (ENDED.has(events.response["status"])) keep(events.response);
      return encoder.encode(made.map(toFrame).join(""));
    },
  };
}

/** The same as events, for whoever reads them in the background. */
export async function openEvents(
  plan: ResponsePlan,
  asking: Asking,
  options: OpenResponseOptions,
): Promise<EventAnswer> {
  const answer = await open(plan, asking, options);
  const native = isNative(answer.attempt.target);
  const events = native
    ? createEventReader(() => answer.read(), plan.response)
    : translateStream(() => answer.read(), writerOptions(plan, answer, options));
  return {
    read: () => nextEvents(events, answer),
    get response() {
      return events.response;
    },
    cancel: (reason) => answer.cancel(reason),
  };
}

function writerOptions(
  plan: ResponsePlan,
  { attempt: { target } }: Answer,
  { now }: OpenResponseOptions,
): ResponseWriterOptions {
  const { response, translated, scan } = plan;
  return {
    response,
    tools: translated?.tools.known ?? new Map(),
    // What is made in the background is stored as it is, and shown to each reader as it asks.
    showEncrypted: scan.background || translated?.settings.showEncrypted === true,
    provider: target.provider,
    model: target.model,
    now,
  };
}

/** The next events. What cannot be read leaves the rest unread: the answer gives its place back and is accounted. */
async function nextEvents(
  events: TranslatedAnswer,
  answer: Answer,
): Promise<JsonObject[] | null> {
  try {
    return await events.read();
  } catch (error) {
    answer.cancel(toHubError(error));
    throw error;
  }
}

interface Keeping {
  plan: ResponsePlan;
  asking: Asking;
  options: OpenResponseOptions;
}

function keepOwn(response: JsonObject, { plan, asking: { owner }, options: { kept } }: Keeping) {
  const { scan, id, input } = plan;
  if (!scan.store) return;
  kept.keep({
    ...owner,
    responseId: id,
    target: null,
    lane: null,
    previousId: scan.previousResponseId,
    state: response["status"] === "incomplete" ? "incomplete" : "completed",
    background: false,
    input: toKeptInput(input, id),
    response,
    items: [],
    leaseMs: null,
  });
}

/** Remembers who keeps a response, as soon as its id is known, and its items when they are. */
function keptElsewhere(
  answer: Answer,
  { plan, asking: { owner }, options: { kept } }: Keeping,
): Answer {
  const { scan, seen } = plan;
  const keep = () => {
    const { target } = answer.attempt;
    const response = seen(target);
    const id = response?.["id"];
    if (!scan.store || response === null || typeof id !== "string") return;
    const items = outputOf(response).map((item) => item["id"]);
    kept.keep({
      ...owner,
      responseId: id,
      target: target.id,
      lane: target.key?.number ?? null,
      previousId: null,
      state: "elsewhere",
      background: false,
      input: [],
      response: null,
      items: items.filter((item) => typeof item === "string"),
      leaseMs: null,
    });
  };
  keep();
  return {
    ...answer,
    async read() {
      const bytes = await answer.read();
      if (bytes === null && scan.stream) keep();
      return bytes;
    },
  };
}

function once(bytes: Uint8Array): () => Promise<Uint8Array | null> {
  let left: Uint8Array | null = bytes;
  return () => {
    const now = left;
    left = null;
    return Promise.resolve(now);
  };
}
