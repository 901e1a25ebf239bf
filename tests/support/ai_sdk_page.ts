import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";

/** The chunks of an AI SDK stream that has ended as it should. */
export async function chunksOf(answer: Response): Promise<JsonObject[]> {
  const text = await answer.text();
  assert.equal(answer.status, 200, text);
  const frames = text.split("\n\n").filter((frame) => frame.startsWith("data: "));
  assert.equal(frames.pop(), "data: [DONE]");
  return frames.map((frame) => JSON.parse(frame.slice("data: ".length)));
}

/** The only chunk of this type that fits. */
export function chunkOf(
  chunks: readonly JsonObject[],
  type: string,
  fits: (chunk: JsonObject) => boolean = () => true,
): JsonObject {
  const found = chunks.filter((chunk) => chunk["type"] === type && fits(chunk));
  assert.equal(found.length, 1, `${found.length} chunks ${type} of ${JSON.stringify(chunks)}`);
  return found[0] ?? {};
}

/** The types of chunks, each as often as it came. */
export const typesOf = (chunks: readonly JsonObject[]) => chunks.map(({ type }) => String(type));

/** A user's message as `useChat` posts it. */
export const userSays = (id: string, text: string): JsonObject => ({
  id,
  role: "user",
  parts: [{ type: "text", text }],
});

/**
 * The assistant's message of a stream that ended where its run waits, with an answer to its question as
 * `addToolApprovalResponse` writes it.
 */
export function answeredMessage(
  chunks: readonly JsonObject[],
  { approved, reason, ...part }: JsonObject & { approved: boolean; reason?: string },
): JsonObject {
  const start = chunkOf(chunks, "start");
  const { approvalId = "", toolCallId = "" } = chunkOf(chunks, "tool-approval-request");
  const { toolName = "", input = null } = chunkOf(
    chunks,
    "tool-input-available",
    (chunk) => chunk["toolCallId"] === toolCallId,
  );
  const finish = chunkOf(chunks, "finish");
  return {
    id: start["messageId"] ?? "",
    role: "assistant",
    metadata: {
      ...start["messageMetadata"] as JsonObject,
      ...finish["messageMetadata"] as JsonObject,
    },
    parts: [{ type: "step-start" }, {
      ...{ type: "dynamic-tool", state: "approval-responded", toolName, toolCallId, input },
      approval: { id: approvalId, approved, ...reason === undefined ? {} : { reason } },
      ...part,
    }],
  };
}
