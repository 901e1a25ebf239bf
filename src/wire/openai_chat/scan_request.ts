import { HubError } from "../../core/error.ts";
import type { Span } from "../json_bytes.ts";
import { MemberScan } from "../member_scan.ts";

/** What the hub must know of a chat request, with the places of the values that it may change. */
export interface ChatRequestScan {
  model: string;
  /** The bytes of the model's value, quotes included. */
  modelSpan: Span;
  stream: boolean;
  /** `stream_options.include_usage`; null when the client does not say. */
  includeUsage: boolean | null;
  /** The bytes of the `stream_options` object; null when there is none. */
  streamOptionsSpan: Span | null;
  /** Where the request's object begins, behind its brace. */
  objectStart: number;
  /** True when the request's object has at least one member. */
  hasMembers: boolean;
  /** `n`: choices asked for, 1 when that is no count. */
  choices: number;
  /** `prompt_cache_key`, for affinity. */
  promptCacheKey: string | null;
  /** Whether the provider is to keep the answer. */
  store: boolean;
}

const WATCHED = new Set(["model", "stream", "stream_options", "n", "prompt_cache_key", "store"]);

/** Some members of a request, found without building the values of the others. */
export interface ScannedMembers {
  /** Where the request's object begins, behind its brace. */
  objectStart: number;
  /** How many members the request's object has. */
  count: number;
  spanOf(name: string): Span | null;
  /** The value of a watched member; undefined for one that is not there. */
  read(name: string): unknown;
}

/**
 * Reads a request in one pass over its bytes, other work in between: the JSON must be whole and strict (RFC 8259), at most 64 deep. Throws
 * `invalid_json` with the position, `invalid_request` for a watched member that comes twice (the upstream might read
 * the other one).
 */
export async function scanMembers(
  body: Uint8Array,
  watched: ReadonlySet<string>,
): Promise<ScannedMembers> {
  const found = new Map<string, Span>();
  let count = 0;
  const scanner = new MemberScan(body, (key, span) => {
    count++;
    if (!watched.has(key)) return;
    if (found.has(key)) {
      throw new HubError("invalid_request", `The request names ${key} twice; it may come once`, {
        param: key,
      });
    }
    found.set(key, span);
  });
  await scanner.scanInSteps();
  return {
    objectStart: scanner.objectStart,
    count,
    spanOf: (name) => found.get(name) ?? null,
    read(name) {
      const span = found.get(name);
      return span === undefined ? undefined : scanner.parse(span);
    },
  };
}

/** The model and the kind of answer that a request asks for. Throws `invalid_request` for a missing model or a wrong type. */
export function scanModel(
  { read, spanOf }: ScannedMembers,
): { model: string; modelSpan: Span; stream: boolean } {
  const model = read("model");
  const modelSpan = spanOf("model");
  if (typeof model !== "string" || model === "" || modelSpan === null) {
    throw wrongType("model", model, "the name of a model");
  }
  const stream = read("stream") ?? false;
  if (typeof stream !== "boolean") throw wrongType("stream", stream, "a boolean");
  return { model, modelSpan, stream };
}

/** Reads a chat request; see `scanMembers` and `scanModel`. */
export async function scanChatRequest(body: Uint8Array): Promise<ChatRequestScan> {
  const members = await scanMembers(body, WATCHED);
  const { read, spanOf, objectStart, count } = members;
  const { model, modelSpan, stream } = scanModel(members);
  const options = read("stream_options") ?? null;
  if (options !== null && (typeof options !== "object" || Array.isArray(options))) {
    throw wrongType("stream_options", options, "an object");
  }
  // Whatever the client says of usage is the client's; null means that it says nothing.
  const includeUsage = options !== null && "include_usage" in options
    ? options.include_usage === true
    : null;
  const n = read("n");
  const promptCacheKey = read("prompt_cache_key");
  return {
    model,
    modelSpan,
    stream,
    includeUsage,
    streamOptionsSpan: spanOf("stream_options"),
    objectStart,
    hasMembers: count > 0,
    choices: typeof n === "number" && Number.isSafeInteger(n) && n > 1 ? n : 1,
    promptCacheKey: typeof promptCacheKey === "string" ? promptCacheKey : null,
    store: read("store") === true,
  };
}

/** The refusal of a member of the wrong type. */
export function wrongType(param: string, got: unknown, wanted: string): HubError {
  const came = got === undefined ? "nothing" : JSON.stringify(got).slice(0, 80);
  return new HubError("invalid_request", `${param} must be ${wanted}, but ${came} came`, { param });
}
