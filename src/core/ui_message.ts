import type { ApprovalResponse, ApprovalTerms } from "./approval.ts";
import type { Json, JsonObject } from "./json.ts";
import type { ReasoningOrigin } from "./model.ts";
import type { ToolOutput } from "./tool.ts";

/** State of a tool part: arguments still arriving, called and not answered, answered, failed (or denied). */
export type ToolCallState = "streaming" | "call" | "result" | "error";

/** One tool call and what became of it. `inputText` is the raw text of the arguments, kept when they were not usable JSON. */
export interface ToolPart {
  type: "tool";
  toolCallId: string;
  toolName: string;
  state: ToolCallState;
  step: number;
  inputText?: string;
  input?: Json;
  output?: ToolOutput;
  errorText?: string;
  /** True when a person or a policy refused the call. */
  denied?: boolean;
  /** The question to a person whether the call may run; `approved` is there once it is answered. */
  approval?:
    & { approvalId: string; expiresAt: string }
    & ApprovalTerms
    & Partial<ApprovalResponse>;
}

/** A piece of a message, in the order in which it began. */
export type UIPart =
  | { type: "step-start"; step: number }
  | { type: "text"; id: string; text: string; state: "streaming" | "done" }
  | {
    type: "reasoning";
    id: string;
    text: string;
    state: "streaming" | "done";
    origin?: ReasoningOrigin;
  }
  | ToolPart
  | { type: "source-url"; sourceId: string; url: string; title?: string }
  | { type: "file"; mediaType: string; url: string; filename?: string }
  | { type: "data"; name: string; data: Json; id?: string };

/** A message as sessions keep it and pages show it. */
export interface UIMessage {
  id: string;
  role: "user" | "assistant" | "system";
  parts: UIPart[];
  /** Facts of the run: model, provider, usage, finishReason; of the caller for user messages. */
  metadata?: JsonObject;
}
