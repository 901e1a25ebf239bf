import type { AiSdkMessage } from "../../../src/wire/ai_sdk_message.ts";

/** State that the AI SDK's chat keeps its messages in; applications bring their own. */
export interface ChatState {
  status: string;
  error: Error | undefined;
  messages: AiSdkMessage[];
  pushMessage(message: AiSdkMessage): void;
  popMessage(): void;
  replaceMessage(index: number, message: AiSdkMessage): void;
  snapshot<T>(thing: T): T;
}

/** What the hub's tests touch of a chat, the same in the versions 5, 6 and 7. */
export interface Chat {
  readonly status: string;
  readonly error: Error | undefined;
  readonly messages: AiSdkMessage[];
  sendMessage(message: { text: string; messageId?: string }): Promise<void>;
  regenerate(options?: { messageId?: string }): Promise<void>;
  resumeStream(): Promise<void>;
  stop(): Promise<void>;
  /** From version 6 on. */
  addToolApprovalResponse?(answer: { id: string; approved: boolean }): Promise<void>;
}

/** Whether a chat posts its messages again by itself. */
export type SendAutomaticallyWhen = (options: { messages: AiSdkMessage[] }) => boolean;

interface FinishFacts {
  message: AiSdkMessage;
  finishReason?: string;
}

/** The part of the `ai` package behind `useChat`. */
export interface AiPackage {
  AbstractChat: new (options: {
    id: string;
    state: ChatState;
    transport: unknown;
    messages?: AiSdkMessage[];
    onError(error: Error): void;
    onData(part: unknown): void;
    onFinish(facts: FinishFacts): void;
    sendAutomaticallyWhen?: SendAutomaticallyWhen;
  }) => Chat;
  /** From version 6 on. */
  lastAssistantMessageIsCompleteWithApprovalResponses?: SendAutomaticallyWhen;
  DefaultChatTransport: new (options: { fetch: typeof fetch; api: string }) => unknown;
  validateUIMessages(options: { messages: readonly unknown[] }): Promise<unknown>;
}

/** Loads one version by its name in this folder's import map. */
export async function loadAiPackage(version: string): Promise<AiPackage> {
  const name = `ai-${version}`;
  return await import(name) as AiPackage;
}

/** A chat of that version whose requests are answered by `answer`. */
export function createChat(
  ai: AiPackage,
  messages: AiSdkMessage[],
  answer: (request: Request) => Response | Promise<Response>,
  { id = "chat_1", ...rest }: { id?: string; sendAutomaticallyWhen?: SendAutomaticallyWhen } = {},
) {
  const state: ChatState = {
    status: "ready",
    error: undefined,
    messages,
    pushMessage: (message) => state.messages = [...state.messages, message],
    popMessage: () => state.messages = state.messages.slice(0, -1),
    replaceMessage: (index, message) => state.messages = state.messages.with(index, message),
    snapshot: (thing) => structuredClone(thing),
  };
  const seen: { errors: Error[]; data: unknown[]; finishReason: string | undefined } = {
    errors: [],
    data: [],
    finishReason: undefined,
  };
  const transport = new ai.DefaultChatTransport({
    api: "http://hub.test/api/chat",
    fetch: async (input, init) => await answer(new Request(input, init)),
  });
  const chat = new ai.AbstractChat({
    id,
    ...rest,
    state,
    transport,
    onError: (error) => seen.errors.push(error),
    onData: (part) => seen.data.push(part),
    onFinish: ({ finishReason }) => seen.finishReason = finishReason,
  });
  return { chat, seen };
}
