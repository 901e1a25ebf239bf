import { isJsonObject, type JsonObject } from "../../core/json.ts";
import type { Usage } from "../../core/usage.ts";
import { readUsage as readChatUsage } from "../openai_chat/chat_usage.ts";
import { hasError, readProviderError } from "../errors/read_error.ts";
import { mayHaveError } from "../errors/scrub_frame.ts";
import type { Redact } from "../provider_text.ts";
import type { FrameReader, TapFacts } from "../sse_tap.ts";
import { parseAnswer } from "../read_members.ts";
import { toAnswerError } from "../upstream_error.ts";
import type { WireDialect } from "../wire_dialect.ts";
import { parseFrame } from "../parse_frame.ts";

/** Called with a response object that says what becomes of it: the first of a stream, the last one, or a whole answer. */
export type SeeResponse = (response: JsonObject) => void;

/** OpenAI's Responses. `see` is told of the response objects on their way. */
export function createResponsesWire(see: SeeResponse = () => {}): WireDialect {
  return {
    name: "responses",
    createFrames: ({ redact }) => new ResponsesFrames(redact, see),
    async readUsage(bytes, redact) {
      const response = await parseAnswer(bytes);
      if (response["status"] === "failed" || (hasError(response) && !("output" in response))) {
        throw toAnswerError(readProviderError(response, redact), { wire: "responses" });
      }
      see(response);
      return readResponsesUsage(response["usage"]);
    },
  };
}

/** The `usage` of a response as the hub counts it; null when there is none. */
export function readResponsesUsage(value: unknown): Usage | null {
  if (!isJsonObject(value)) return null;
  return readChatUsage({
    prompt_tokens: value["input_tokens"] ?? null,
    completion_tokens: value["output_tokens"] ?? null,
    total_tokens: value["total_tokens"] ?? null,
    prompt_tokens_details: value["input_tokens_details"] ?? null,
    completion_tokens_details: value["output_tokens_details"] ?? null,
  });
}

/** Ends of a stream that are the answer's own. */
const ENDS: ReadonlySet<string> = new Set(["response.completed", "response.incomplete"]);
/** Items that are announced before there is anything in them. */
const EMPTY_ITEMS: ReadonlySet<unknown> = new Set(["message", "reasoning"]);
/** Lifecycle events: nothing of the answer itself. */
const LIFECYCLE = /^response\.(?:created|queued|in_progress)$/;

/** Reads the frames of a Responses stream. */
class ResponsesFrames implements FrameReader {
  readonly #redact: Redact;
  readonly #see: SeeResponse;
  #seen = false;

  constructor(redact: Redact, see: SeeResponse) {
    this.#redact = redact;
    this.#see = see;
  }

  wants(text: string): boolean {
    return text.includes('"response.completed"') || text.includes('"response.incomplete"') ||
      mayHaveError(text);
  }

  read(data: string, facts: TapFacts): boolean {
    if (!data.startsWith("{")) {
      if (data.trimEnd() === "[DONE]") facts.done = true;
      return false;
    }
    let event: unknown;
    try {
      event = parseFrame(data);
    } catch {
      facts.malformedFrames++;
      return false;
    }
    if (!isJsonObject(event)) return false;
    const { type, response } = event;
    const isFailed = type === "response.failed";
    if (isFailed || type === "error" || (type === undefined && hasError(event))) {
      facts.error = readProviderError(isFailed ? response : event, this.#redact);
      return true;
    }
    if (typeof type !== "string") return false;
    const ends = ENDS.has(type);
    if (ends) facts.finished = facts.done = true;
    if (ends || isContent(type, event)) facts.content = true;
    if (isJsonObject(response) && (ends || !this.#seen)) {
      this.#seen = true;
      const { model, status } = response;
      if (typeof model === "string") facts.model = model;
      if (ends && typeof status === "string") facts.finishReasons = [status];
      this.#see(response);
      facts.usage = readResponsesUsage(response["usage"]) ?? facts.usage;
    }
    return false;
  }
}

function isContent(type: string, event: JsonObject): boolean {
  if (LIFECYCLE.test(type) || type === "keepalive") return false;
  if (type.endsWith(".delta")) return event["delta"] !== "";
  if (type === "response.output_item.added") {
    const { item } = event;
    return isJsonObject(item) && !EMPTY_ITEMS.has(item["type"]);
  }
  return !type.endsWith("_part.added");
}
