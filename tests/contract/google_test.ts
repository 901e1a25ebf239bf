import { isJsonObject, type JsonObject } from "../../src/core/json.ts";
import { type ContractAnswer, testDialect } from "./dialect_contract.ts";

const sse = (frame: object) => `data: ${JSON.stringify(frame)}\r\n\r\n`;

function usageOf({ usage, reasoning }: ContractAnswer): JsonObject {
  if (usage === undefined) return {};
  const thoughtsTokenCount = reasoning === undefined ? 0 : 2;
  return {
    usageMetadata: {
      promptTokenCount: usage.prompt,
      candidatesTokenCount: usage.completion - thoughtsTokenCount,
      thoughtsTokenCount,
      totalTokenCount: usage.prompt + usage.completion,
    },
  };
}

function partsOf({ text = [], reasoning, calls = [] }: ContractAnswer): JsonObject[] {
  return [
    ...(reasoning === undefined ? [] : [{ text: reasoning, thought: true }]),
    ...text.map((piece) => ({ text: piece })),
    ...calls.map(({ name, arguments: args }, index) => ({
      functionCall: { name, args: args as JsonObject },
      ...(index === 0 ? { thoughtSignature: "c2lnbmVkIQ==" } : {}),
    })),
  ];
}

const reasonOf = ({ finish }: ContractAnswer) => finish === "length" ? "MAX_TOKENS" : "STOP";

testDialect({
  kind: "google",
  baseUrl: (origin) => `${origin}/v1beta`,
  path: (stream) =>
    `/v1beta/models/m:${stream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
  credential: ["x-goog-api-key", "sk-up"],
  streamType: "text/event-stream",
  whole: (answer) => ({
    candidates: [{
      content: { role: "model", parts: partsOf(answer) },
      finishReason: reasonOf(answer),
      index: 0,
    }],
    ...usageOf(answer),
    modelVersion: "m-001",
    responseId: "abc",
  }),
  frames(answer) {
    const content = partsOf(answer).map((part) =>
      sse({ candidates: [{ content: { parts: [part], role: "model" }, index: 0 }] })
    );
    const end = sse({
      candidates: [{ content: { parts: [{ text: "" }] }, finishReason: reasonOf(answer) }],
      ...usageOf(answer),
    });
    const empty = sse({ usageMetadata: { promptTokenCount: 1 }, modelVersion: "m-001" });
    const first = answer.usage === undefined ? ": hello\n\n" : empty;
    return { frames: [first, ...content, end], before: 1 };
  },
  malformed: 'data: {"candidates":[{"content":\r\n\r\n',
  errorFrame: (message) => sse({ error: { code: 503, message, status: "UNAVAILABLE" } }),
  errorBody: (status, message) => [{ error: { code: status, message, status: "INTERNAL" } }],
  tooLong: {
    status: 400,
    body: {
      error: {
        code: 400,
        message:
          "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        status: "INVALID_ARGUMENT",
      },
    },
  },
  resultsIn: (request) =>
    (request.json.contents as { parts: JsonObject[] }[]).flatMap(({ parts }) =>
      parts.flatMap(({ functionResponse }) =>
        isJsonObject(functionResponse) && isJsonObject(functionResponse["response"])
          ? [String(functionResponse["response"]["output"])]
          : []
      )
    ),
  failuresIn: (request) =>
    (request.json.contents as { parts: JsonObject[] }[]).flatMap(({ parts }) =>
      parts.flatMap(({ functionResponse }) =>
        isJsonObject(functionResponse) && isJsonObject(functionResponse["response"]) &&
          "error" in functionResponse["response"]
          ? [String(functionResponse["response"]["error"])]
          : []
      )
    ),
  signature: '"thoughtSignature":"c2lnbmVkIQ=="',
});
