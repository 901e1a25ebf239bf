import { type TSchema, Type } from "@sinclair/typebox";

const strict = (type: string, fields: Record<string, TSchema> = {}) =>
  Type.Object({ type: Type.Literal(type), ...fields }, { additionalProperties: false });

const text = Type.String();
const call = { toolCallId: text };
const dynamic = Type.Literal(true);
const metadata = Type.Object({});

const COMMON = [
  strict("start", { messageId: text, messageMetadata: metadata }),
  strict("start-step"),
  strict("finish-step"),
  ...["text", "reasoning"].flatMap((kind) => [
    strict(`${kind}-start`, { id: text }),
    strict(`${kind}-delta`, { id: text, delta: Type.String({ minLength: 1 }) }),
    strict(`${kind}-end`, { id: text }),
  ]),
  strict("tool-input-start", { ...call, toolName: text, dynamic }),
  strict("tool-input-delta", { ...call, inputTextDelta: text }),
  strict("tool-input-available", { ...call, toolName: text, input: Type.Unknown(), dynamic }),
  strict("tool-input-error", { ...call, toolName: text, input: text, errorText: text, dynamic }),
  strict("tool-output-available", {
    ...call,
    output: Type.Unknown(),
    dynamic,
    preliminary: Type.Optional(Type.Literal(true)),
  }),
  strict("tool-output-error", { ...call, errorText: text, dynamic }),
  strict("source-url", { sourceId: text, url: text, title: Type.Optional(text) }),
  strict("file", { url: text, mediaType: text }),
  Type.Object({
    type: Type.String({ pattern: "^data-." }),
    id: Type.Optional(text),
    data: Type.Unknown(),
    transient: Type.Optional(Type.Literal(true)),
  }, { additionalProperties: false }),
  strict("message-metadata", { messageMetadata: metadata }),
  strict("abort"),
  strict("error", { errorText: text }),
  strict("finish", {
    finishReason: Type.Union(
      ["stop", "length", "content-filter", "tool-calls", "error", "other"].map((reason) =>
        Type.Literal(reason)
      ),
    ),
    messageMetadata: metadata,
  }),
];

const LEVEL_6 = [
  strict("tool-approval-request", { approvalId: text, ...call }),
  strict("tool-output-denied", call),
];

/** What may be sent to an AI SDK client of a level: these chunks with exactly these fields. Written from the design, not from the renderer. */
export const ALLOWED_CHUNKS = {
  5: Type.Union(COMMON),
  6: Type.Union([...COMMON, ...LEVEL_6]),
  7: Type.Union([...COMMON, ...LEVEL_6, strict("reset-step")]),
} as const;
