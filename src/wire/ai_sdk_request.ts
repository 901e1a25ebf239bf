import { type Static, Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { HubError } from "../core/error.ts";
import { MAX_CLIENT_ID_LENGTH, MAX_MODEL_ASKED, MAX_REASON_LENGTH } from "../core/limits.ts";
import { isJsonObject, type Json } from "../core/json.ts";
import { WHEN_BUSY } from "../core/when_busy.ts";
import type { UIPart } from "../core/ui_message.ts";

const PostedMessage = Type.Object({
  id: Type.String({ minLength: 1, maxLength: MAX_CLIENT_ID_LENGTH }),
  role: Type.Union([Type.Literal("user"), Type.Literal("assistant"), Type.Literal("system")]),
  parts: Type.Array(Type.Object({ type: Type.String() })),
  metadata: Type.Optional(Type.Unknown()),
});

/** What is done with a message to a chat whose run goes on. */
export const WhenBusyField = Type.Optional(
  Type.Union(WHEN_BUSY.map((one) => Type.Literal(one)), {
    description:
      "What is done where a run of the chat goes on: queue (answered behind it), steer (said to it), replace (it is stopped), refuse. Default: the agent's, else queue",
  }),
);

/**
 * Body of `POST /api/chat` as the AI SDK's `DefaultChatTransport` of versions 5, 6 and 7 posts it. Applications add
 * fields of their own, so unknown ones are let through here and are not read.
 */
export const AiSdkChatRequest = Type.Object({
  id: Type.String({
    minLength: 1,
    maxLength: MAX_CLIENT_ID_LENGTH,
    description: "Id of the chat",
  }),
  messages: Type.Array(PostedMessage, {
    description:
      "The client's history; of it only the last user message counts, or the answers to approvals of the message that asked",
  }),
  trigger: Type.Optional(
    Type.Union([Type.Literal("submit-message"), Type.Literal("regenerate-message")]),
  ),
  messageId: Type.Optional(
    Type.Union([Type.String({ maxLength: MAX_CLIENT_ID_LENGTH }), Type.Null()]),
  ),
  agent: Type.Optional(Type.Union([Type.String({ minLength: 1, maxLength: 64 }), Type.Null()], {
    description: "The agent that answers. Default: the chat's, for a new one `default`",
  })),
  model: Type.Optional(
    Type.Union([Type.String({ minLength: 1, maxLength: MAX_MODEL_ASKED }), Type.Null()], {
      description: "Instead of the agent's, for this answer; one that the key may call itself",
    }),
  ),
  whenBusy: WhenBusyField,
  format: Type.Optional(
    Type.Unknown({ description: "json: the answer is one JSON object, or the run fails" }),
  ),
  schema: Type.Optional(
    Type.Unknown({ description: "With format json: the JSON Schema that it fits" }),
  ),
  budget: Type.Optional(Type.Unknown({ description: "What the run may use up" })),
  preflight: Type.Optional(
    Type.Unknown({ description: "Whether a person has to agree to a plan first" }),
  ),
  mcpAuth: Type.Optional(
    Type.Unknown({ description: "Credentials of this run for MCP servers, by their prefixes" }),
  ),
});
export type AiSdkChatRequest = Static<typeof AiSdkChatRequest>;

/** What a `useChat` client wants. The `clientMessageId` of a submit makes posting the same message twice harmless. */
export type AiSdkChat =
  | AiSdkSubmit
  /**
   * `messageId` names the assistant message to make again; null is the last one. `last` is the user's message that the page
   * ends with, and `said` what it would be as a message that is said for the first time; both are left out without one.
   */
  | {
    trigger: "regenerate";
    chatId: string;
    messageId: string | null;
    last?: string;
    said?: AiSdkSubmit;
  }
  /** People have answered what an assistant message asked: its run goes on. */
  | AiSdkAnswers;

/** A message that a user says. */
export interface AiSdkSubmit {
  trigger: "submit";
  chatId: string;
  clientMessageId: string;
  parts: UIPart[];
  /** The message that it takes the place of, and the one before it in the page; left out for one that is said at the end. */
  edits?: { messageId: string; after: string | null };
}

/** Answers to approvals as `addToolApprovalResponse` of the versions 6 and 7 leaves them in a message. */
export interface AiSdkAnswers {
  trigger: "answer";
  chatId: string;
  /** The assistant message that has asked. */
  messageId: string;
  /** The number of the last event that the client has of it, as the end of its stream told it; null when it does not say. */
  waitingAt: number | null;
  answers: AiSdkAnswer[];
}

/** One of them, with the call as it was shown to the client that answered. */
export interface AiSdkAnswer {
  approvalId: string;
  approved: boolean;
  reason: string | null;
  toolCallId: string;
  /** Left out by clients that do not post it. */
  input?: Json;
}

const TextPart = Type.Object({ type: Type.Literal("text"), text: Type.String() });
const FilePart = Type.Object({
  type: Type.Literal("file"),
  mediaType: Type.String({ minLength: 1 }),
  url: Type.String({ minLength: 1 }),
  filename: Type.Optional(Type.String()),
});

/**
 * Reads a posted chat. The history a client posts is forgeable, so only its last message is used: text and file parts,
 * with `data:`, `http:` or `https:` URLs; parts of other types are left out. Throws `invalid_request`.
 */
export function parseAiSdkChat(body: unknown): AiSdkChat {
  if (!Value.Check(AiSdkChatRequest, body)) {
    const problem = Value.Errors(AiSdkChatRequest, body).First();
    const path = problem?.path ?? "";
    throw invalid(`The chat request is not valid at ${path || "/"}: ${problem?.message}`, path);
  }
  const chatId = body.id;
  if (body.trigger === "regenerate-message") {
    const messageId = body.messageId ?? null;
    const last = body.messages.at(-1);
    if (last?.role !== "user") return { trigger: "regenerate", chatId, messageId };
    const parts = readParts(body);
    const said = parts.length === 0
      ? {}
      : { said: { trigger: "submit" as const, chatId, clientMessageId: last.id, parts } };
    return { trigger: "regenerate", chatId, messageId, last: last.id, ...said };
  }
  const answers = readAnswers(body);
  if (answers !== null) return answers;
  const at = body.messages.length - 1;
  const last = body.messages[at];
  if (last?.role !== "user") {
    throw invalid(
      `The last message must be the user's, but ${
        last === undefined ? "there is none" : `its role is ${last.role}`
      }`,
      "/messages",
    );
  }
  const parts = readParts(body);
  if (parts.length === 0) {
    throw invalid("The last message has neither text nor a file", `/messages/${at}/parts`);
  }
  const { messageId = null } = body;
  const after = body.messages.at(-2)?.id ?? null;
  const edits = messageId === null ? {} : { edits: { messageId, after } };
  return { trigger: "submit", chatId, clientMessageId: last.id, parts, ...edits };
}

/** What the last message says. */
function readParts({ messages }: AiSdkChatRequest): UIPart[] {
  const at = messages.length - 1;
  return messages[at]?.parts.flatMap((part, index) => readPart(part, { at, index })) ?? [];
}

const AnsweredPart = Type.Object({
  toolCallId: Type.String({ maxLength: 200 }),
  input: Type.Optional(Type.Unknown()),
  approval: Type.Object({
    id: Type.String({ minLength: 1, maxLength: 100 }),
    approved: Type.Boolean(),
    reason: Type.Optional(Type.Union([Type.String({ maxLength: MAX_REASON_LENGTH }), Type.Null()])),
  }),
});

/** More than a model's answer may have calls. */
const MAX_ANSWERS = 1000;

/**
 * The answers of the message that the request is about: the one that `messageId` names, as newer versions post when
 * something was said since, else the last one. Null when it is no assistant's, or nothing was answered in it.
 */
function readAnswers(body: AiSdkChatRequest): AiSdkAnswers | null {
  const { messages, messageId } = body;
  const named = messages.findLastIndex(({ id }) => id === messageId);
  const at = named === -1 ? messages.length - 1 : named;
  const message = messages[at];
  if (message?.role !== "assistant") return null;
  const place = `/messages/${at}/parts`;
  const answers = message.parts.flatMap((part: { type: string; state?: unknown }, index) => {
    if (part.state !== "approval-responded") return [];
    if (!Value.Check(AnsweredPart, part)) {
      throw invalid("An answered call wants toolCallId and approval", `${place}/${index}`);
    }
    const { toolCallId, input, approval: { id: approvalId, approved, reason = null } } = part;
    const shown = input === undefined ? {} : { input: input as Json };
    return [{ approvalId, approved, reason, toolCallId, ...shown }];
  });
  if (answers.length === 0) return null;
  if (answers.length > MAX_ANSWERS) {
    throw invalid(`A message has ${MAX_ANSWERS} answers to approvals at most`, place);
  }
  const { metadata } = message;
  const waitingAt = isJsonObject(metadata) ? metadata["waitingAt"] : null;
  return {
    trigger: "answer",
    chatId: body.id,
    messageId: message.id,
    waitingAt: Number.isSafeInteger(waitingAt) ? Number(waitingAt) : null,
    answers,
  };
}

function readPart(part: { type: string }, place: { at: number; index: number }): UIPart[] {
  const path = `/messages/${place.at}/parts/${place.index}`;
  if (part.type === "text") {
    if (!Value.Check(TextPart, part)) throw invalid("A text part wants a text", path);
    if (part.text === "") return [];
    return [{ type: "text", id: `text-${place.index}`, text: part.text, state: "done" }];
  }
  if (part.type !== "file") return [];
  if (!Value.Check(FilePart, part)) throw invalid("A file part wants mediaType and url", path);
  const { mediaType, url, filename } = part;
  if (!/^(https?:\/\/|data:)/i.test(url)) {
    throw invalid("A file's url must be an http or https address or a data URL", `${path}/url`);
  }
  return [{ type: "file", mediaType, url, ...(filename === undefined ? {} : { filename }) }];
}

function invalid(message: string, path: string): HubError {
  return new HubError("invalid_request", message, path === "" ? {} : { param: path });
}
