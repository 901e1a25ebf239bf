import { HubError } from "../../core/error.ts";
import { JsonScanner, type Span } from "./json_scanner.ts";

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
}

const WATCHED = new Set(["model", "stream", "stream_options", "n", "prompt_cache_key"]);

/**
 * Reads a chat request in one pass over its bytes, without building its values: the JSON must be whole and strict
 * (RFC 8259), at most 64 deep. Throws `invalid_json` with the position, `invalid_request` for a missing model, a
 * wrong type, or a member that comes twice (the upstream might read the other one).
 */
export function scanChatRequest(body: Uint8Array): ChatRequestScan {
  const scanner = new JsonScanner(body);
  scanner.skipSpace();
  if (!scanner.take(0x7b)) scanner.fail("a JSON object");
  const objectStart = scanner.position;
  const found = new Map<string, Span>();
  let members = 0;
  scanner.members((key) => {
    members++;
    if (!WATCHED.has(key)) return scanner.value(2);
    if (found.has(key)) {
      throw new HubError("invalid_request", `The request names ${key} twice; it may come once`, {
        param: key,
      });
    }
    const from = scanner.position;
    scanner.value(2);
    found.set(key, { from, to: scanner.position });
    return undefined;
  });
  scanner.end();
  const read = (key: string): unknown => {
    const span = found.get(key);
    return span === undefined ? undefined : scanner.parse(span);
  };
  const model = read("model");
  const modelSpan = found.get("model");
  if (typeof model !== "string" || model === "" || modelSpan === undefined) {
    throw wrongType("model", model, "the name of a model");
  }
  const stream = read("stream") ?? false;
  if (typeof stream !== "boolean") throw wrongType("stream", stream, "a boolean");
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
    streamOptionsSpan: found.get("stream_options") ?? null,
    objectStart,
    hasMembers: members > 0,
    choices: typeof n === "number" && Number.isSafeInteger(n) && n > 1 ? n : 1,
    promptCacheKey: typeof promptCacheKey === "string" ? promptCacheKey : null,
  };
}

function wrongType(param: string, got: unknown, wanted: string): HubError {
  const came = got === undefined ? "nothing" : JSON.stringify(got).slice(0, 80);
  return new HubError("invalid_request", `${param} must be ${wanted}, but ${came} came`, { param });
}
