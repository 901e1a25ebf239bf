import { type ApprovalResponse, responseOf } from "../core/approval.ts";
import type { Json, JsonObject } from "../core/json.ts";
import type { ToolPart, UIMessage, UIPart } from "../core/ui_message.ts";

/** A tool call in the AI SDK's words. */
export type AiSdkToolPart =
  & { type: "dynamic-tool"; toolCallId: string; toolName: string }
  & (
    | { state: "input-streaming"; input?: Json }
    | { state: "input-available"; input: Json }
    | { state: "output-available"; input: Json; output: Json; preliminary?: true }
    | { state: "output-error"; input: Json; errorText: string }
  );

/** A piece of a message in the AI SDK's words. */
export type AiSdkPart =
  | { type: "step-start" }
  | { type: "text" | "reasoning"; text: string; state: "streaming" | "done" }
  | AiSdkToolPart
  | { type: "source-url"; sourceId: string; url: string; title?: string }
  | { type: "file"; mediaType: string; url: string; filename?: string }
  | { type: `data-${string}`; id?: string; data: Json };

/** A message as `useChat` of the versions 5, 6 and 7 keeps it. */
export interface AiSdkMessage {
  id: string;
  role: UIMessage["role"];
  metadata?: JsonObject;
  parts: AiSdkPart[];
}

/**
 * The message for AI SDK clients' histories; what the stream renderer leads to, for a message that is stored. A user's
 * message keeps the id that its client gave it, so that the page knows it when it is loaded again.
 */
export function toAiSdkMessage(
  { clientId = null, ...message }: UIMessage & { clientId?: string | null },
): AiSdkMessage {
  const { role, metadata } = message;
  const id = role === "user" ? clientId ?? message.id : message.id;
  const parts = message.parts.flatMap((part) => [toAiSdkPart(part), ...approvalParts(part)]);
  return { id, role, ...(metadata === undefined ? {} : { metadata }), parts };
}

function toAiSdkPart(part: UIPart): AiSdkPart {
  switch (part.type) {
    case "step-start":
      return { type: "step-start" };
    case "text":
    case "reasoning":
      return { type: part.type, text: part.text, state: part.state };
    case "tool":
      return toAiSdkTool(part);
    case "source-url":
    case "file":
      return { ...part };
    case "data":
      return {
        type: `data-${part.name}`,
        ...(part.id === undefined ? {} : { id: part.id }),
        data: part.data,
      };
  }
}

/** The question about a call, as it stands. */
function approvalParts(part: UIPart): AiSdkPart[] {
  if (part.type !== "tool" || part.approval === undefined) return [];
  const { toolCallId, toolName, input = null } = part;
  const { approvalId: id, approved, reason: _, remember: __, ...terms } = part.approval;
  const asked = { toolCallId, toolName, input, ...terms };
  const answer = approved === undefined ? null : { ...part.approval, approved };
  return [{ type: "data-approval", id, data: approvalData(asked, answer) }];
}

/** What a `data-approval` part says: what was asked, and its state. */
export function approvalData(
  asked: JsonObject,
  answer: ApprovalResponse | null,
): JsonObject {
  if (answer === null) return { ...asked, state: "requested" };
  const { approved, ...said } = responseOf(answer);
  const { reason } = said;
  const isNobodys = reason === "expired" || reason === "cancelled";
  const state = approved ? "approved" : isNobodys ? reason : "denied";
  return { ...asked, state, ...said };
}

function toAiSdkTool(part: ToolPart): AiSdkToolPart {
  const { toolCallId, toolName, output } = part;
  const call = { type: "dynamic-tool", toolCallId, toolName } as const;
  const input = part.input ?? part.inputText ?? null;
  switch (part.state) {
    case "streaming":
      return { ...call, state: "input-streaming" };
    case "call":
      if (output === undefined) return { ...call, state: "input-available", input };
      return { ...call, state: "output-available", input, output, preliminary: true };
    case "result":
      return { ...call, state: "output-available", input, output: output ?? null };
    case "error":
      return { ...call, state: "output-error", input, errorText: part.errorText ?? "" };
  }
}
