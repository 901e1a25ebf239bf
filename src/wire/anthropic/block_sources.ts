import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import type { TextSpan } from "../../core/model.ts";
import { type SourceLink, sourceLink } from "../source_links.ts";

/** Blocks with what a tool of Anthropic's own found on the web. */
const RESULT_BLOCKS: ReadonlySet<unknown> = new Set([
  "web_search_tool_result",
  "web_fetch_tool_result",
]);

/** Whether the block is a result of Anthropic's web search or web fetch. */
export function isWebResult({ type }: JsonObject): boolean {
  return RESULT_BLOCKS.has(type);
}

/** The pages that a result of web search or web fetch names; none for a failed search. */
export function resultSources({ content }: JsonObject): (SourceLink | null)[] {
  const results = Array.isArray(content) ? content : [content ?? null];
  return results.map((result) => {
    if (!isJsonObject(result)) return null;
    const document = result["content"];
    const title = result["title"] ?? (isJsonObject(document) ? document["title"] : undefined);
    return sourceLink(result["url"], { title });
  });
}

/** The page that a citation of a text block names; null for a place in a document of the client's own. */
export function citationSource(citation: Json, cited: TextSpan): SourceLink | null {
  if (!isJsonObject(citation)) return null;
  const { type, url, source, title } = citation;
  if (type === "web_search_result_location") return sourceLink(url, { title, cited });
  return type === "search_result_location" ? sourceLink(source, { title, cited }) : null;
}
