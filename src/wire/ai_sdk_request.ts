import { type Static, Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { HubError } from "../core/error.ts";
import type { UIPart } from "../core/ui_message.ts";

const PostedMessage = Type.Object({
  id: Type.String({ minLength: 1, maxLength: 200 }),
  role: Type.Union([Type.Literal("user"), Type.Literal("assistant"), Type.Literal("system")]),
  parts: Type.Array(Type.Object({ type: Type.String() })),
});

/**
 * Body of `POST /api/chat` as the AI SDK's `DefaultChatTransport` of versions 5, 6 and 7 posts it. Applications add
 * fields of their own, so unknown ones are let through here and read by nobody.
 */
export const AiSdkChatRequest = Type.Object({
  id: Type.String({ minLength: 1, maxLength: 200, description: "Id of the chat" }),
  messages: Type.Array(PostedMessage, {
    description: "The client's history; of it only the last user message counts",
  }),
  trigger: Type.Optional(
    Type.Union([Type.Literal("submit-message"), Type.Literal("regenerate-message")]),
  ),
  messageId: Type.Optional(Type.Union([Type.String({ maxLength: 200 }), Type.Null()])),
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

/** What a `useChat` client wants. `clientMessageId` makes posting the same message twice harmless. */
export type AiSdkChat =
  | { trigger: "submit"; chatId: string; clientMessageId: string; parts: UIPart[] }
  /** `messageId` names the assistant message to make again; null is the last one. */
  | { trigger: "regenerate"; chatId: string; messageId: string | null };

const TextPart = Type.Object({ type: Type.Literal("text"), text: Type.String() });
const FilePart = Type.Object({
  type: Type.Literal("file"),
  mediaType: Type.String({ minLength: 1, maxLength: 200 }),
  url: Type.String({ minLength: 1 }),
  filename: Type.Optional(Type.String({ maxLength: 1000 })),
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
    return { trigger: "regenerate", chatId, messageId: body.messageId ?? null };
  }
  const at = body.messages.length - 1;
  const last = body.messages[at];
  if (last?.role === "assistant" && last.parts.some(isApprovalAnswer)) {
    throw invalid(
      "Answers to approvals are not taken from a chat's messages: send each to " +
        "POST /v1/runs/{runId}/approvals/{approvalId}, with the runId of the message's metadata; " +
        "the stream of the run goes on then",
      "/messages",
    );
  }
  if (last?.role !== "user") {
    throw invalid(
      `The last message must be the user's, but ${
        last === undefined ? "there is none" : `its role is ${last.role}`
      }`,
      "/messages",
    );
  }
  const parts = last.parts.flatMap((part, index) => readPart(part, { at, index }));
  if (parts.length === 0) {
    throw invalid("The last message has neither text nor a file", `/messages/${at}/parts`);
  }
  return { trigger: "submit", chatId, clientMessageId: last.id, parts };
}

/** What `useChat` makes of a call that somebody has answered for, and posts by itself where it is told to. */
function isApprovalAnswer(part: { type: string; state?: unknown }): boolean {
  return part.state === "approval-responded";
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
