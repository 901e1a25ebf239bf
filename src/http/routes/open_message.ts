import type { AbortLike } from "../../core/abort.ts";
import type { ModelRequest } from "../../core/model.ts";
import type { Target } from "../../providers/target.ts";
import type { HeaderPairs } from "../../providers/transport.ts";
import type { Answer, OpenAnswer } from "../../router/open_answer.ts";
import type { Route } from "../../router/route.ts";
import type { CallFacts } from "../../router/usage_fact.ts";
import type { Span } from "../../telemetry/tracing.ts";
import type { MessageWriterOptions } from "../../wire/messages/message_writer.ts";
import {
  toChatRequest,
  translateRequest,
  withoutPacked,
} from "../../wire/messages/messages_request.ts";
import { MESSAGES_WIRE } from "../../wire/messages/messages_wire.ts";
import { type MessagesRequestScan, renameModel } from "../../wire/messages/scan_request.ts";
import { translateStream, translateWhole } from "../../wire/messages/translate_answer.ts";
import { CHAT } from "../../wire/openai_chat/chat_wire.ts";
import { readWholeAnswer } from "./completion_reply.ts";
import { readOnce, translatedAnswer } from "./translated_answer.ts";

/** A Messages request on its way. */
export interface MessageRequest {
  body: Uint8Array;
  scan: MessagesRequestScan;
  targets: Route;
  /** Tags of its key. */
  tags: readonly string[];
  /** What it belongs to, null when it does not say. */
  affinity: string | null;
  /** What a provider of this dialect is told in fields. */
  headers: HeaderPairs;
  signal: AbortLike;
  facts: CallFacts;
  span: Span | null;
  /** Id of a message that the hub makes. */
  nextId(): string;
}

/** Whether requests go to a target as they are. */
export const isNative = ({ endpoints }: Target): boolean => endpoints.messages !== undefined;

/** The request as a provider of its own dialect gets it. */
export function nativeBody({ body, scan }: MessageRequest, { model }: Target): Promise<Uint8Array> {
  return withoutPacked(renameModel(body, scan, model));
}

/**
 * Opens an answer in this dialect: a provider's own, or one made from a chat. What no chat can carry goes to providers
 * of the dialect alone. Throws `invalid_request` when there is none.
 */
export async function openMessage(asked: MessageRequest, openAnswer: OpenAnswer): Promise<Answer> {
  const { scan, signal, facts, headers } = asked;
  const { targets, chat } = await planOf(asked);
  const answer = await openAnswer({
    targets,
    async prepare(target) {
      if (chat === null || isNative(target)) {
        const body = await nativeBody(asked, target);
        return { wire: MESSAGES_WIRE, body, hideUsage: false, headers };
      }
      const body = await toChatRequest(chat, { target, stream: scan.stream });
      return { wire: CHAT, body, hideUsage: false };
    },
    stream: scan.stream,
    bytes: asked.body.length,
    tags: asked.tags,
    affinity: asked.affinity,
    signal,
    span: asked.span,
    facts,
  });
  return isNative(answer.attempt.target) ? answer : translated(answer, asked);
}

async function planOf(
  { body, targets }: MessageRequest,
): Promise<{ targets: Route; chat: ModelRequest | null }> {
  if (targets.every(isNative)) return { targets, chat: null };
  try {
    return { targets, chat: await translateRequest(body) };
  } catch (error) {
    const natives = targets.filter(isNative);
    if (natives.length === 0) throw error;
    return { targets: natives, chat: null };
  }
}

/** The answer as a message. */
function translated(answer: Answer, { scan, nextId }: MessageRequest): Answer {
  const { provider, model } = answer.attempt.target;
  const options: MessageWriterOptions = {
    id: nextId(),
    model: scan.model,
    thinks: scan.thinks,
    from: { provider, model },
  };
  return translatedAnswer(
    answer,
    scan.stream
      ? translateStream(() => answer.read(), options)
      : readOnce(async () => translateWhole(await readWholeAnswer(answer), options)),
  );
}
