import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import type { ModelEvent } from "../../core/model.ts";
import { readDataUrl } from "../chat_fields.ts";
import { MAX_SOURCE_URL_CHARS, readCitation, SourceFilter, sourceLink } from "../source_links.ts";

/** Endings of image addresses, and the types behind them. */
const IMAGE_TYPES: Readonly<Record<string, string>> = {
  gif: "image/gif",
  jpeg: "image/jpeg",
  jpg: "image/jpeg",
  webp: "image/webp",
};

/** Reads what an answer brings beside text, thoughts and calls: the pages that it names and the images that it made. */
export class AnswerExtras {
  readonly #sources = new SourceFilter();
  #lastImage = "";

  /**
   * The sources and images of a delta, or of a whole message: `annotations` as OpenAI and OpenRouter send them, `images` as
   * OpenRouter does. An image that comes twice in a row is one.
   */
  ofDelta({ annotations, images }: JsonObject): ModelEvent[] {
    const events: ModelEvent[] = Array.isArray(annotations)
      ? this.#sources.take(annotations.map(readCitation))
      : [];
    if (!Array.isArray(images)) return events;
    for (const image of images) if (isJsonObject(image)) events.push(...this.ofImage(image));
    return events;
  }

  /** The image of an `image_url` part; none for a part that holds no address. */
  ofImage(part: JsonObject): ModelEvent[] {
    const { image_url: image } = part;
    const url = isJsonObject(image) ? image["url"] : image;
    if (typeof url !== "string" || url === "" || url === this.#lastImage) return [];
    this.#lastImage = url;
    const inline = readDataUrl(url);
    if (inline !== null) return [{ type: "file", mediaType: inline.mediaType, url }];
    return linkedImage(url);
  }

  /** Sources that a chunk has beside its choices: `search_results` of Perplexity, else `citations` of it and xAI. */
  ofChunk({ search_results: results, citations }: JsonObject): ModelEvent[] {
    if (Array.isArray(results) && results.length > 0) {
      return this.#sources.take(results.map(toSource));
    }
    return Array.isArray(citations) ? this.#sources.take(citations.map(toSource)) : [];
  }
}

/** An image at an address of the provider's. */
function linkedImage(url: string): ModelEvent[] {
  if (sourceLink(url) === null) {
    const reason =
      `its address is no data: or http(s) URL of up to ${MAX_SOURCE_URL_CHARS} characters`;
    return [{ type: "file-left-out", mediaType: "image/*", bytes: 0, reason }];
  }
  const ending = /\.([a-z]+)(?:[?#].*)?$/i.exec(url)?.[1]?.toLowerCase() ?? "";
  return [{ type: "file", mediaType: IMAGE_TYPES[ending] ?? "image/png", url }];
}

function toSource(result: Json) {
  return isJsonObject(result)
    ? sourceLink(result["url"], { title: result["title"] })
    : sourceLink(result);
}
