import type { ModelOverride } from "../config/provider_schema.ts";
import type { ModelMessage, ModelRequest } from "../core/model.ts";
import { toRequestChoice } from "../core/tool_choice.ts";

const NO_IMAGE = "(an image is left out here: this model takes none)";

/**
 * The request as one model gets it: its configured settings stand where the agent says nothing, and a model without
 * vision reads a note for each image. `toWire` gives the wire name of a full tool name.
 */
export function applyOverride(
  request: ModelRequest,
  { override, toWire }: { override: ModelOverride; toWire: (toolName: string) => string },
): ModelRequest {
  const { temperature, topP, maxOutputTokens, parallelToolCalls, toolChoice, vision } = override;
  const { tools, hasCalled = false } = request;
  const forTools: Partial<ModelRequest> = tools.length === 0 ? {} : {
    ...(parallelToolCalls === undefined ? {} : { parallelToolCalls }),
    ...(toolChoice === undefined
      ? {}
      : { toolChoice: toRequestChoice(toolChoice, { tools, toWire, hasCalled }) }),
  };
  return {
    ...(temperature === undefined ? {} : { temperature }),
    ...(topP === undefined ? {} : { topP }),
    ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
    ...forTools,
    ...request,
    ...(vision === false ? { messages: request.messages.map(withoutImages) } : {}),
  };
}

function withoutImages(message: ModelMessage): ModelMessage {
  if (message.role === "user") {
    return {
      role: "user",
      content: message.content.map((piece) =>
        piece.type === "image" ? { type: "text", text: NO_IMAGE } : piece
      ),
    };
  }
  if (message.role !== "tool") return message;
  const results = message.results.map((result) => {
    const notes = result.images.map(() => NO_IMAGE);
    return {
      ...result,
      text: [result.text, ...notes].filter((text) => text !== "").join("\n"),
      images: [],
    };
  });
  return { role: "tool", results };
}
