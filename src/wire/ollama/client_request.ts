import { type Static, Type } from "@sinclair/typebox";
import { imageTypeOf } from "../../core/image_type.ts";
import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import { MAX_MODEL_ASKED } from "../../core/limits.ts";
import type {
  FunctionDefinition,
  ModelMessage,
  ModelRequest,
  UserContent,
} from "../../core/model.ts";
import { refusal } from "../chat_fields.ts";

const Images = Type.Optional(
  Type.Union([
    Type.Array(Type.String({ minLength: 1, description: "Base64 of a PNG, JPEG, GIF or WebP" })),
    Type.Null(),
  ]),
);

const Call = Type.Object({
  id: Type.Optional(Type.String()),
  function: Type.Object({
    name: Type.String({ minLength: 1 }),
    arguments: Type.Optional(Type.Unknown()),
  }),
});

const Message = Type.Object({
  role: Type.Union(["system", "user", "assistant", "tool"].map((role) => Type.Literal(role))),
  content: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  images: Images,
  tool_calls: Type.Optional(Type.Union([Type.Array(Call), Type.Null()])),
  tool_name: Type.Optional(Type.String({ description: "Role tool: whose result it is" })),
  tool_call_id: Type.Optional(Type.String()),
});

const COMMON = {
  model: Type.String({ minLength: 1, maxLength: MAX_MODEL_ASKED }),
  stream: Type.Optional(
    Type.Union([Type.Boolean(), Type.Null()], { description: "True unless told" }),
  ),
  format: Type.Optional(Type.Unknown({ description: "`json`, or a JSON Schema" })),
  think: Type.Optional(Type.Union([Type.Boolean(), Type.String(), Type.Null()])),
  options: Type.Optional(
    Type.Union([Type.Object({}), Type.Null()], {
      description: "`num_predict`, `temperature`, `top_p`, `seed`, `stop` and more",
    }),
  ),
  keep_alive: Type.Optional(Type.Unknown()),
};

/** Body of Ollama's `POST /api/chat`. Fields that are not here are not read. */
export const OllamaChatRequest = Type.Object({
  ...COMMON,
  messages: Type.Optional(Type.Union([Type.Array(Message), Type.Null()])),
  tools: Type.Optional(
    Type.Union([
      Type.Array(Type.Object({
        function: Type.Object({
          name: Type.String({ minLength: 1 }),
          description: Type.Optional(Type.String()),
          parameters: Type.Optional(Type.Unknown()),
        }),
      })),
      Type.Null(),
    ]),
  ),
});
/** A checked one. */
export type OllamaChatRequest = Static<typeof OllamaChatRequest>;

/** Body of Ollama's `POST /api/generate`. */
export const OllamaGenerateRequest = Type.Object({
  ...COMMON,
  prompt: Type.Optional(Type.String()),
  system: Type.Optional(Type.String()),
  images: Images,
  suffix: Type.Optional(Type.String()),
  template: Type.Optional(Type.String()),
  raw: Type.Optional(Type.Boolean()),
  context: Type.Optional(Type.Unknown()),
});
/** A checked one. */
export type OllamaGenerateRequest = Static<typeof OllamaGenerateRequest>;

/** Options that other providers have too, under the same name. */
const SHARED = ["seed", "stop", "presence_penalty", "frequency_penalty"] as const;
const EFFORTS = ["low", "medium", "high"];

/**
 * Whether a body on a path of both is one of Ollama's: it names a model, and has neither the id of a chat nor messages of
 * parts, which a `useChat` client sends.
 */
export function isOllamaChat(body: unknown): boolean {
  if (!isJsonObject(body) || typeof body["model"] !== "string" || "id" in body) return false;
  const { messages } = body;
  return !Array.isArray(messages) ||
    messages.every((message) => !isJsonObject(message) || !("parts" in message));
}

/** The chat that a provider is asked; `forOllama`: its own options go along. */
export function chatOfOllama(
  body: OllamaChatRequest,
  { forOllama }: { forOllama: boolean },
): ModelRequest {
  return {
    ...settingsOf(body, forOllama),
    messages: messagesOf(body.messages ?? []),
    tools: (body.tools ?? []).map(({ function: tool }, index): FunctionDefinition => ({
      name: tool.name,
      description: tool.description ?? "",
      parameters: schemaOf(tool.parameters, `tools[${index}].function.parameters`),
      strict: false,
    })),
  };
}

/** The same for a prompt. Throws `invalid_request` for what only a model of the machine's own can do. */
export function promptOfOllama(
  { prompt = "", system, images, ...body }: OllamaGenerateRequest,
  options: { forOllama: boolean },
): ModelRequest {
  const refused = body.raw === true
    ? "raw"
    : (["suffix", "template", "context"] as const).find((name) => isGiven(body[name]));
  if (refused !== undefined) {
    throw refusal(refused, `${refused} is not served here: ask POST /api/chat with messages`);
  }
  const messages = [
    ...system === undefined || system === "" ? [] : [{ role: "system", content: system }],
    { role: "user", content: prompt, images: images ?? null },
  ];
  return chatOfOllama({ ...body, messages }, options);
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null && value !== "" &&
    !(Array.isArray(value) && value.length === 0);
}

function settingsOf(
  { options, format, think, keep_alive: keepAlive }: OllamaChatRequest,
  forOllama: boolean,
): Omit<ModelRequest, "messages" | "tools"> {
  const given = (options ?? {}) as JsonObject;
  const { num_predict: most, temperature, top_p: topP, ...rest } = given;
  const shared = Object.fromEntries(
    SHARED.flatMap((name) => isGiven(rest[name]) ? [[name, rest[name] as Json]] : []),
  );
  const own: JsonObject = forOllama
    ? {
      options: rest,
      ...(think === undefined || think === null ? {} : { think }),
      ...(isGiven(keepAlive) ? { keep_alive: keepAlive as Json } : {}),
    }
    : typeof think === "string" && EFFORTS.includes(think)
    ? { ...shared, reasoning_effort: think }
    : shared;
  return {
    ...(isNumber(temperature, "temperature") ? { temperature } : {}),
    ...(isNumber(topP, "top_p") ? { topP } : {}),
    // -1 and -2: as many as there are.
    ...(isNumber(most, "num_predict") && most >= 0 ? { maxOutputTokens: most } : {}),
    ...(isGiven(format) ? { responseFormat: formatOf(format) } : {}),
    extra: own,
  };
}

function isNumber(value: Json | undefined, name: string): value is number {
  if (value === undefined || value === null) return false;
  if (typeof value === "number") return true;
  throw refusal(`options.${name}`, `options.${name} must be a number`);
}

function formatOf(format: unknown): NonNullable<ModelRequest["responseFormat"]> {
  if (format === "json") return { name: "answer", schema: null };
  if (isJsonObject(format)) return { name: "answer", schema: format, strict: false };
  throw refusal("format", "format must be json or a JSON Schema");
}

function schemaOf(value: unknown, param: string): JsonObject {
  if (value === undefined || value === null) return { type: "object", properties: {} };
  if (isJsonObject(value)) return value;
  throw refusal(param, `${param} must be a JSON Schema`);
}

/** Ollama's results name their tool at most: each belongs to the first call of that tool, or of any, that has none. */
function messagesOf(messages: NonNullable<OllamaChatRequest["messages"]>): ModelMessage[] {
  const open: { id: string; name: string }[] = [];
  let count = 0;
  return messages.map((message, index): ModelMessage => {
    const { role, images, tool_calls: calls } = message;
    const text = message.content ?? "";
    const at = `messages[${index}]`;
    if (role === "system") return { role, text };
    if (role === "user") return { role, content: userContent(text, images ?? [], at) };
    if (role === "tool") {
      const { tool_call_id: id, tool_name: name } = message;
      const place = open.findIndex((call) =>
        id !== undefined ? call.id === id : name === undefined || call.name === name
      );
      const [call] = place === -1 ? [] : open.splice(place, 1);
      if (call === undefined) {
        throw refusal(at, `${at} is the result of no call before it; tool_name names the tool`);
      }
      const result = { toolCallId: call.id, toolName: call.name, text, images: [], isError: false };
      return { role: "tool", results: [result] };
    }
    const made = (calls ?? []).map(({ id, function: { name, arguments: input } }) => {
      const call = { id: id ?? `call_${count++}`, name };
      open.push(call);
      const inputText = typeof input === "string" ? input : JSON.stringify(input ?? {});
      return { type: "tool-call" as const, toolCallId: call.id, toolName: name, inputText };
    });
    return {
      role: "assistant",
      content: [...text === "" ? [] : [{ type: "text" as const, text }], ...made],
    };
  });
}

function userContent(text: string, images: readonly string[], at: string): UserContent[] {
  return [
    ...text === "" && images.length > 0 ? [] : [{ type: "text" as const, text }],
    ...images.map((data, index): UserContent => {
      const mediaType = typeOf(data);
      if (mediaType === null) {
        const param = `${at}.images[${index}]`;
        throw refusal(param, `${param} is no PNG, JPEG, GIF or WebP image in base64`);
      }
      return { type: "image", url: `data:${mediaType};base64,${data}`, mediaType };
    }),
  ];
}

/** The type of an image by what its base64 begins with. */
function typeOf(data: string): string | null {
  try {
    return imageTypeOf(Uint8Array.fromBase64(data.slice(0, 32)));
  } catch {
    return null;
  }
}
