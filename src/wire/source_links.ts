import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import type { ModelEvent, TextSpan } from "../core/model.ts";

/** Most sources of one answer; later ones are left out. */
export const MAX_SOURCES = 256;
/** Longest address of a source, in characters; one that is longer is left out. */
export const MAX_SOURCE_URL_CHARS = 4096;
/** Longest title of a source, in characters; a longer one is cut. */
export const MAX_SOURCE_TITLE_CHARS = 500;

/** A web page that an answer names. */
export type SourceLink = Extract<ModelEvent, { type: "source-url" }>;

/**
 * The source with this address and title; null for what is no http(s) address, or a longer one than the bound. Pages show
 * these as links, so that no other scheme may pass.
 */
export function sourceLink(
  url: Json | undefined,
  { title, cited }: { title?: Json | undefined; cited?: TextSpan | null } = {},
): SourceLink | null {
  if (typeof url !== "string" || url.length > MAX_SOURCE_URL_CHARS) return null;
  if (!/^https?:\/\/[^\s\p{Cc}]+$/iu.test(url) || !URL.canParse(url)) return null;
  const named = typeof title === "string" && title !== ""
    ? { title: title.slice(0, MAX_SOURCE_TITLE_CHARS).toWellFormed() }
    : {};
  return { type: "source-url", url, ...named, ...(cited ? { cited } : {}) };
}

/** A `url_citation` as annotations of chat completions and of Responses have it; null for any other annotation. */
export function readCitation(annotation: Json): SourceLink | null {
  if (!isJsonObject(annotation) || annotation["type"] !== "url_citation") return null;
  const nested = annotation["url_citation"];
  const { url, title, start_index: start, end_index: end }: JsonObject = isJsonObject(nested)
    ? nested
    : annotation;
  return sourceLink(url, { title, cited: spanOf(start, end) });
}

/** The `url_citation` annotation of chat completions for a source. One that no text rests on has an empty span. */
export function toCitation({ url, title = url, cited }: SourceLink): JsonObject {
  const { start, end } = cited ?? { start: 0, end: 0 };
  return {
    type: "url_citation",
    url_citation: { url, title, start_index: start, end_index: end },
  };
}

/** Lets each source of an answer pass once for each piece of text that rests on it, up to `MAX_SOURCES`. */
export class SourceFilter {
  readonly #seen = new Set<string>();

  /** The sources among these that are new. */
  take(links: readonly (SourceLink | null)[]): SourceLink[] {
    return links.filter((link) => link !== null).filter(({ url, cited }) => {
      const key = `${cited?.start ?? ""}-${cited?.end ?? ""} ${url}`;
      if (this.#seen.has(key) || this.#seen.size >= MAX_SOURCES) return false;
      this.#seen.add(key);
      return true;
    });
  }
}

function spanOf(start: Json | undefined, end: Json | undefined): TextSpan | null {
  const isPlace = (value: Json | undefined): value is number =>
    typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
  return isPlace(start) && isPlace(end) && end > start ? { start, end } : null;
}
