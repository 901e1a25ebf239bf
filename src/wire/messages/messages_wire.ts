import { HubError } from "../../core/error.ts";
import { isJsonObject, type JsonObject } from "../../core/json.ts";
import { NO_USAGE, type Usage } from "../../core/usage.ts";
import { mergeUsage, readMessagesUsage } from "../anthropic/message_facts.ts";
import { readUsage as readChatUsage } from "../openai_chat/chat_usage.ts";
import { hasError, readProviderError } from "../errors/read_error.ts";
import { mayHaveError } from "../errors/scrub_frame.ts";
import type { Redact } from "../provider_text.ts";
import type { FrameReader, TapFacts } from "../sse_tap.ts";
import { parseAnswer, readAnswerMembers } from "../read_members.ts";
import { toAnswerError } from "../upstream_error.ts";
import type { WireDialect } from "../wire_dialect.ts";
import { parseFrame } from "../parse_frame.ts";

/** Anthropic's Messages, from a provider that speaks them. */
export const MESSAGES_WIRE: WireDialect = {
  name: "messages",
  createFrames: ({ redact }) => new MessagesFrames(redact),
  async readUsage(bytes, redact) {
    const message = await readMessage(bytes, redact);
    if (Array.isArray(message["content"]) && typeof message["stop_reason"] === "string") {
      return toUsage(message["usage"]);
    }
    throw new HubError("upstream_malformed", "The provider's answer is no message that has ended");
  },
};

/** The count of a request's tokens, which nobody pays for. */
export const TOKEN_COUNT_WIRE: WireDialect = {
  ...MESSAGES_WIRE,
  async readUsage(bytes, redact) {
    const { input_tokens: tokens } = await readMessage(bytes, redact);
    if (typeof tokens === "number") return { ...NO_USAGE };
    throw new HubError("upstream_malformed", "The provider's answer is no count of tokens");
  },
};

/** Reads the frames of a Messages stream. */
class MessagesFrames implements FrameReader {
  readonly #redact: Redact;
  #usage: JsonObject = {};

  constructor(redact: Redact) {
    this.#redact = redact;
  }

  wants(text: string): boolean {
    return text.includes("message_delta") || text.includes("message_stop") || mayHaveError(text);
  }

  read(data: string, facts: TapFacts): boolean {
    if (!data.startsWith("{")) return false;
    let event: unknown;
    try {
      event = parseFrame(data);
    } catch {
      facts.malformedFrames++;
      return false;
    }
    if (!isJsonObject(event)) return false;
    const { type, delta } = event;
    if (type === "error" || (type === undefined && hasError(event))) {
      facts.error = readProviderError(event, this.#redact);
      return true;
    }
    if (type === "message_start" && isJsonObject(event["message"])) {
      const { usage, model } = event["message"];
      this.#count(usage, facts);
      if (typeof model === "string") facts.model = model;
    }
    if (type === "message_delta") {
      this.#count(event["usage"], facts);
      const reason = isJsonObject(delta) ? delta["stop_reason"] : null;
      if (typeof reason === "string") {
        facts.finishReasons = [reason];
        facts.finished = facts.content = true;
      }
    }
    if (type === "message_stop") facts.done = facts.content = true;
    if (isContent(event)) facts.content = true;
    return false;
  }

  #count(usage: JsonObject[string] | undefined, facts: TapFacts): void {
    this.#usage = mergeUsage(this.#usage, usage);
    facts.usage = toUsage(this.#usage) ?? facts.usage;
  }
}

/** Blocks that are announced before there is anything in them. */
const EMPTY_BLOCKS: ReadonlySet<unknown> = new Set(["text", "thinking"]);

function isContent({ type, content_block: block, delta }: JsonObject): boolean {
  if (type === "content_block_start") {
    return isJsonObject(block) && !EMPTY_BLOCKS.has(block["type"]);
  }
  if (type !== "content_block_delta" || !isJsonObject(delta)) return false;
  return Object.entries(delta).some(([name, value]) =>
    name !== "type" && value !== "" && value !== null
  );
}

function toUsage(usage: JsonObject[string] | undefined): Usage | null {
  return readChatUsage(readMessagesUsage(usage));
}

/** What a whole answer says beside its content. */
const MEMBERS: ReadonlySet<string> = new Set([
  "type",
  "error",
  "stop_reason",
  "usage",
  "input_tokens",
]);
const CONTENT: ReadonlySet<string> = new Set(["content"]);

async function readMessage(bytes: Uint8Array, redact: Redact): Promise<JsonObject> {
  const message = await readAnswerMembers(bytes, { wanted: MEMBERS, present: CONTENT });
  if (message["type"] === "error" || hasError(message)) {
    const error = readProviderError(await parseAnswer(bytes), redact);
    throw toAnswerError(error, { wire: "messages" });
  }
  return message;
}
