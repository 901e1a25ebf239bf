import type { AbortLike } from "../../core/abort.ts";
import type { Target } from "../../providers/target.ts";
import { tagsOf } from "../../router/key_tags.ts";
import type { Choice, Route } from "../../router/route.ts";
import type { CallFacts } from "../../router/usage_fact.ts";
import type { CachedAnswer, FoundAnswer, Opened } from "../../run/joined_answers.ts";
import type { AnswerCache, CacheQuestion } from "../../run/response_cache.ts";
import { factsOf } from "../asked_by.ts";
import { CACHE_HEADER, readCacheSeconds } from "../cache_header.ts";
import type { Call } from "../call.ts";
import { hashRequest } from "../idempotency_key.ts";
import { type NotedAnswer, readWholeAnswer, show, type ShownAnswer } from "./completion_reply.ts";

/** What the cache needs to know of a completion. */
export interface Cacheable {
  cache: AnswerCache;
  /** Who may answer. */
  targets: Route;
  /** False when the answer is more than its bytes, or depends on more than the request. */
  repeatable: boolean;
  model: string;
  stream: boolean;
  /** Which part of the API; `proxy` unless told. */
  kind?: CallFacts["kind"];
  /** The endpoint's name. */
  place: string;
  /** What beside the body chooses the answer. */
  asked: string;
  /** Asks the provider. */
  begin(signal: AbortLike): Promise<NotedAnswer>;
}

/** Opens the answer to a request; called once. */
export type OpenShown = (signal: AbortLike) => Promise<ShownAnswer>;

/** Changes when answers that were cached before must not be found any more. */
const VERSION = 2;

/** How the answer is opened: by the provider, or through the cache if the request or its key asks for it. */
export function throughCache(call: Call, completion: Cacheable): OpenShown {
  const { cache, repeatable } = completion;
  const asked = readCacheSeconds(call);
  const seconds = cache.secondsFor(call.principal.keyId, asked);
  const begin = async (signal: AbortLike, outcome?: string) => {
    const answer = show(await completion.begin(signal));
    return outcome === undefined ? answer : noted(answer, { [CACHE_HEADER]: outcome });
  };
  if (seconds > 0 && repeatable) return (signal) => openCached(call, completion, seconds, signal);
  if (seconds === 0 && (asked ?? 0) === 0) return (signal) => begin(signal);
  cache.pass();
  return (signal) => begin(signal, "bypass");
}

async function openCached(
  call: Call,
  completion: Cacheable,
  seconds: number,
  signal: AbortLike,
): Promise<ShownAnswer> {
  const { cache, stream: streamed, model, kind = "proxy" } = completion;
  const { tenantId, keyId } = call.principal;
  const facts = factsOf(call, { kind, publicModel: model });
  cache.permit(facts);
  const startedAt = call.clock.now();
  const question: CacheQuestion = {
    tenantId,
    keyId,
    seconds,
    hash: hashRequest(placeOf(call, completion), await call.readBody()),
  };
  const look = async () => {
    const startedMs = call.clock.monotonic();
    const found = await cache.find(question);
    // Whoever opens an answer counts all of it as waiting for a provider.
    call.addUpstreamWait(startedMs - call.clock.monotonic());
    return found;
  };
  const ask = async (signal: AbortLike) => {
    const answer = show(await completion.begin(signal));
    return noted(recorded(answer, { cache, question, streamed }), { [CACHE_HEADER]: "miss" });
  };
  const opened = streamed
    ? await openStreamed(look, () => ask(signal))
    : await cache.open(question, { signal, look, ask: async (signal) => held(await ask(signal)) });
  if ("answer" in opened) return opened.answer;
  const { head, bytes, age } = opened.found;
  const { target, provider, model: itsModel } = head;
  let left: Uint8Array | null = bytes;
  let booked = false;
  const end = (outcome: "ok" | "aborted") => {
    if (booked) return;
    booked = true;
    const bytesOut = left === null ? bytes.length : 0;
    cache.book(facts, { provider, model: itsModel, streamed, outcome, bytesOut, startedAt });
  };
  return {
    from: { id: target, provider, model: itsModel, override: { pricing: FREE } },
    notes: head.headers,
    headers: () => ({ ...head.headers, [CACHE_HEADER]: "hit", age: String(age) }),
    isWhole: () => true,
    read() {
      const now = left;
      left = null;
      if (now === null) end("ok");
      return Promise.resolve(now);
    },
    cancel: () => end("aborted"),
  };
}

/** Streams are not waited for: whoever asks for one wants its first words soon. */
async function openStreamed(
  look: () => Promise<FoundAnswer | null>,
  ask: () => Promise<ShownAnswer>,
): Promise<Opened<ShownAnswer>> {
  const found = await look();
  return found === null ? { answer: await ask() } : { found };
}

/** The answer with all its bytes, for its client and for those who asked the same. */
async function held(answer: ShownAnswer): Promise<{ answer: ShownAnswer; kept: CachedAnswer }> {
  const bytes = await readWholeAnswer(answer);
  let left: Uint8Array | null = bytes;
  const read = () => {
    const now = left;
    left = null;
    return Promise.resolve(now);
  };
  return { answer: { ...answer, read, cancel() {} }, kept: { head: headOf(answer), bytes } };
}

function headOf({ from: { id: target, provider, model }, notes: headers }: ShownAnswer) {
  return { target, provider, model, headers };
}

const FREE = Object.freeze({ inputPerMillion: 0, outputPerMillion: 0 });

/** All that an answer depends on beside the body: whose it is, what is asked how, and who would answer. */
function placeOf(call: Call, { place, asked, targets }: Cacheable): string {
  return JSON.stringify([
    VERSION,
    call.principal.tenantId,
    place,
    asked,
    tagsOf(call.principal).toSorted(),
    targets.map(placeOfTarget),
    targets.tiers?.map(({ choice, strategy, rules }) => [
      strategy,
      placeOfChoice(choice),
      rules.map(({ when, choice }) => [when, placeOfChoice(choice)]),
    ]),
  ]);
}

/** Where a target's requests go, and what the hub puts into them but its key, which may be rotated. */
function placeOfTarget({ id, endpoints, fixedHeaders, quirks, override }: Target) {
  const { pricing: _, maxConcurrent: __, ...settings } = override;
  const keyed = quirks.credential("").map(([name]) => name);
  return [
    id,
    Object.entries(endpoints).map(([dialect, { url }]) => [dialect, url]),
    fixedHeaders.filter(([name]) => !keyed.includes(name)),
    settings,
  ];
}

function placeOfChoice({ targets, weights }: Choice) {
  return targets.map(({ id }, index) => [id, weights[index]]);
}

/** The answer, which is kept once it is whole. */
function recorded(
  answer: ShownAnswer,
  { cache, question, streamed }: {
    cache: AnswerCache;
    question: CacheQuestion;
    streamed: boolean;
  },
): ShownAnswer {
  const recording = cache.record(question);
  return {
    ...answer,
    async read() {
      try {
        const bytes = await answer.read();
        if (bytes !== null) recording.push(bytes);
        else if (answer.isWhole()) {
          recording.finish(headOf(answer), { streamed });
        } else recording.drop();
        return bytes;
      } catch (error) {
        recording.drop();
        throw error;
      }
    },
    cancel(reason) {
      recording.drop();
      answer.cancel(reason);
    },
  };
}

function noted(answer: ShownAnswer, more: Readonly<Record<string, string>>): ShownAnswer {
  return { ...answer, headers: () => ({ ...answer.headers(), ...more }) };
}
