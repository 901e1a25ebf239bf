import type { ToolContent, ToolContext } from "../core/tool.ts";
import { bytesOf, textOf } from "./tool_output.ts";

/** Keeps a file of a result; gives where it can be read. */
export type SaveFile = (
  file: { mediaType: string; content: Uint8Array },
  context: ToolContext,
) => Promise<string>;

/** Keeps the files among the pieces of a result, each once, and has links in their place; where none can be kept, words. */
export async function keepFiles(
  content: ToolContent[],
  { files, context, tool }: {
    files?: SaveFile | "pass";
    context: ToolContext;
    tool: string;
  },
): Promise<ToolContent[]> {
  if (files === "pass" || content.every(({ type }) => type !== "file")) return content;
  return await Promise.all(content.map(async (piece): Promise<ToolContent> => {
    if (piece.type !== "file") return piece;
    const told: ToolContent = { type: "text", text: textOf(piece) };
    if (files === undefined) return told;
    try {
      const { mediaType, data } = piece;
      const uri = await files({ mediaType, content: Uint8Array.fromBase64(data) }, context);
      const title = `${piece.title} of type ${mediaType}, ${bytesOf(data)} bytes`;
      return { type: "resource", uri, mediaType, title };
    } catch (error) {
      context.log.error("A file of a tool result could not be kept", { tool, error });
      return told;
    }
  }));
}
