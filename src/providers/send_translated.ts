import { encodeJsonInSteps } from "../core/large_json/encode_json.ts";
import { parsePlainJson } from "../core/large_json/json_in_steps.ts";
import { isJsonObject, type JsonObject } from "../core/json.ts";
import { MAX_RESPONSE_BYTES } from "../core/limits.ts";
import type {
  ChatAnswerFacts,
  ChatChunkMaker,
  ChatDialect,
  NativeSettings,
} from "../wire/chat_dialect.ts";
import { checkCalls } from "../wire/check_calls.ts";
import { parseAnswer, TRANSLATED_BOUNDS } from "../wire/read_members.ts";
import { readWhole } from "./read_whole.ts";
import type { SendUpstream, UpstreamResponse } from "./transport.ts";

/** What a translating sender is made of. */
export interface TranslationOptions {
  send: SendUpstream;
  dialect: ChatDialect;
  /** Where the provider's native API begins, without a slash at the end. */
  baseUrl: string;
  /** What is configured for a model, by the provider's name of it. */
  settingsOf: (model: string) => NativeSettings;
  now: () => number;
  /** An id for answers that bring none. */
  nextId: () => string;
}

const MAX_ERROR_BYTES = 64 * 1024;
const encoder = new TextEncoder();
const decoder = new TextDecoder();
const EMPTY = new Uint8Array(0);
/** How long a provider's bytes may come without any of them being shown. */
const QUIET_MS = 5_000;
const COMMENT = encoder.encode(":\n\n");
/** What describes the body that came, not the one that is made of it. */
const BODY_FIELDS = new Set(["content-type", "content-length", "content-encoding"]);

/**
 * Sends chat completions to a provider of another dialect: whoever calls sees a server of chat completions, streams,
 * errors and broken answers included.
 */
export function sendTranslated(options: TranslationOptions): SendUpstream {
  const { send, dialect, baseUrl } = options;
  return async (request) => {
    const chat = await parsePlainJson(request.body ?? EMPTY) as JsonObject;
    await checkCalls(chat);
    const native = dialect.encodeRequest(chat, options.settingsOf(String(chat["model"])));
    const response = await send({
      ...request,
      url: baseUrl + native.path,
      headers: [...request.headers, ...native.headers ?? []],
      body: await encodeJsonInSteps(native.body),
    });
    const facts: ChatAnswerFacts = {
      id: options.nextId(),
      created: Math.floor(options.now() / 1000),
      model: String(chat["model"]),
      includeUsage: isJsonObject(chat["stream_options"]) &&
        chat["stream_options"]["include_usage"] === true,
      aliases: native.aliases,
    };
    if (response.status < 200 || response.status > 299) return errorAnswer(response, dialect);
    const type = response.header("content-type") ?? "";
    // An error with a good status comes as one JSON value, whatever was asked for.
    const streams = chat["stream"] === true && !/^application\/json\b/.test(type);
    return streams
      ? streamedAnswer(response, dialect.startChunks(facts), options.now)
      : wholeAnswer(response, (body) => dialect.decodeAnswer(body, facts));
  };
}

function streamedAnswer(
  response: UpstreamResponse,
  maker: ChatChunkMaker,
  now: () => number,
): UpstreamResponse {
  let ended = false;
  let shownMs = now();
  const frames = (chunks: readonly JsonObject[], last: string) =>
    encoder.encode(chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("") + last);
  return answer(response, {
    contentType: "text/event-stream",
    async read() {
      while (!ended) {
        const bytes = await response.read();
        if (bytes === null) {
          ended = true;
          const chunks = maker.end();
          const made = frames(chunks, maker.done ? "data: [DONE]\n\n" : "");
          return made.length > 0 ? made : null;
        }
        const made = frames(maker.push(bytes), "");
        // Pings and the like make no chunk, but whoever waits must see that something comes.
        if (made.length === 0 && now() - shownMs < QUIET_MS) continue;
        shownMs = now();
        return made.length > 0 ? made : COMMENT;
      }
      return null;
    },
  });
}

function wholeAnswer(
  response: UpstreamResponse,
  decode: (body: JsonObject) => JsonObject,
): UpstreamResponse {
  return jsonAnswer(response, async () => {
    const bytes = await readWhole(response, { maxBytes: MAX_RESPONSE_BYTES, onPiece() {} });
    return decode(await parseAnswer(bytes, TRANSLATED_BOUNDS));
  });
}

/** An error in OpenAI's shape; read before it is handed on, as its body may say what its head did not. */
export async function errorAnswer(
  response: UpstreamResponse,
  dialect: Pick<ChatDialect, "decodeError" | "errorFacts">,
): Promise<UpstreamResponse> {
  const bytes = await readWhole(response, { maxBytes: MAX_ERROR_BYTES, onPiece() {} });
  const body = parse(bytes) ?? decoder.decode(bytes);
  const { status = response.status, retryAfterSeconds } = dialect.errorFacts?.(body) ?? {};
  const error = dialect.decodeError(body, status);
  return jsonAnswer(
    withHead(response, { status, retryAfterSeconds }),
    () => Promise.resolve({ error }),
  );
}

/** The answer with another status, and with a wait where it says none itself. */
function withHead(
  response: UpstreamResponse,
  { status, retryAfterSeconds }: { status: number; retryAfterSeconds: number | undefined },
): UpstreamResponse {
  const name = "retry-after";
  const added: [string, string][] =
    retryAfterSeconds === undefined || response.header(name) !== null
      ? []
      : [[name, String(retryAfterSeconds)]];
  return {
    status,
    header: (field) => response.header(field) ?? (field === name ? added[0]?.[1] ?? null : null),
    get headers(): [string, string][] {
      return [...response.headers, ...added];
    },
    headersStartingWith(prefixes) {
      const wanted = prefixes.some((prefix) => name.startsWith(prefix));
      return [...response.headersStartingWith(prefixes), ...(wanted ? added : [])];
    },
    read: () => response.read(),
    cancel: () => response.cancel(),
  };
}

/** The answer that came, with a JSON body that is made when it is read. */
export function jsonAnswer(
  response: UpstreamResponse,
  make: () => Promise<JsonObject>,
): UpstreamResponse {
  let made = false;
  return answer(response, {
    contentType: "application/json",
    async read() {
      if (made) return null;
      made = true;
      return await encodeJsonInSteps(await make());
    },
  });
}

/** The answer that came, with another body. */
function answer(
  response: UpstreamResponse,
  { contentType, read }: { contentType: string; read: UpstreamResponse["read"] },
): UpstreamResponse {
  const kept = (fields: [string, string][]) => fields.filter(([name]) => !BODY_FIELDS.has(name));
  return {
    status: response.status,
    header: (name) => {
      if (name === "content-type") return contentType;
      return BODY_FIELDS.has(name) ? null : response.header(name);
    },
    get headers(): [string, string][] {
      return [...kept(response.headers), ["content-type", contentType]];
    },
    headersStartingWith: (prefixes) => kept(response.headersStartingWith(prefixes)),
    read,
    cancel: () => response.cancel(),
  };
}

function parse(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(decoder.decode(bytes));
  } catch {
    return null;
  }
}
