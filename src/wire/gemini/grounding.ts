import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import type { TextSpan } from "../../core/model.ts";
import { MAX_SOURCES, SourceFilter, type SourceLink, sourceLink } from "../source_links.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Longest text in which places are counted, in characters: past it, sources come without the text that rests on them. */
const MAX_COUNTED_CHARS = 64 * 1024;

/** Reads the sources of one answer: `groundingMetadata` and `citationMetadata` of its candidate. */
export class GroundingReader {
  readonly #sources = new SourceFilter();
  #text = "";

  /** Takes text of the answer, in which places are counted. */
  push(text: string): void {
    if (this.#text.length <= MAX_COUNTED_CHARS) this.#text += text;
  }

  /** The new sources that a candidate names, those that text rests on first. */
  take(candidate: JsonObject): SourceLink[] {
    const { groundingMetadata: grounding, citationMetadata: citations } = candidate;
    const links = isJsonObject(grounding) ? this.#grounded(grounding) : [];
    if (isJsonObject(citations)) {
      const sources = listOf(citations["citationSources"] ?? citations["citations"]);
      for (const { uri, title } of sources) links.push(sourceLink(uri, { title }));
    }
    return links.length === 0 ? [] : this.#sources.take(links);
  }

  #grounded(grounding: JsonObject): (SourceLink | null)[] {
    const chunks = listOf(grounding["groundingChunks"]).map(pageOf);
    const supports = listOf(grounding["groundingSupports"]);
    const toSpan = supports.length === 0 ? () => null : this.#spans();
    const cited = new Set<Json>();
    const links = supports.flatMap(({ segment, groundingChunkIndices: indices }) => {
      const span = toSpan(segment);
      if (span === null || !Array.isArray(indices)) return [];
      return indices.slice(0, MAX_SOURCES).map((index) => {
        const page = typeof index === "number" ? chunks[index] : undefined;
        if (page === undefined) return null;
        cited.add(index);
        return sourceLink(page["uri"], { title: page["title"], cited: span });
      });
    });
    const rest = chunks.filter((_, index) => !cited.has(index));
    return [...links, ...rest.map(({ uri, title }) => sourceLink(uri, { title }))];
  }

  /** Turns segments, which Gemini counts in UTF-8 bytes, into places of the text. */
  #spans(): (segment: Json | undefined) => TextSpan | null {
    if (this.#text.length > MAX_COUNTED_CHARS) return () => null;
    const bytes = encoder.encode(this.#text);
    const isAscii = bytes.length === this.#text.length;
    const charsTo = (at: number) =>
      isAscii ? Math.min(at, bytes.length) : decoder.decode(bytes.subarray(0, at)).length;
    return (segment) => {
      if (!isJsonObject(segment)) return null;
      const { startIndex: from = 0, endIndex: to } = segment;
      if (typeof from !== "number" || typeof to !== "number" || from < 0 || to <= from) return null;
      return { start: charsTo(from), end: charsTo(to) };
    };
  }
}

/** The objects of a list, up to the bound of sources. */
function listOf(value: Json | undefined): JsonObject[] {
  return Array.isArray(value) ? value.slice(0, MAX_SOURCES).filter(isJsonObject) : [];
}

/** What a chunk stands for: a page of the web, of a place on the map or of the client's own store. */
function pageOf(chunk: JsonObject): JsonObject {
  const page = chunk["web"] ?? chunk["maps"] ?? chunk["retrievedContext"];
  return isJsonObject(page) ? page : {};
}
