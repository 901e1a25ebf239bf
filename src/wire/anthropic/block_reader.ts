import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import { type AnswerPiece, mintCallId } from "../chat_answer.ts";
import type { ChatAnswerFacts } from "../chat_dialect.ts";
import { KeyRenamer } from "../rename_keys.ts";
import { MAX_SOURCES, SourceFilter, type SourceLink } from "../source_links.ts";
import { citationSource, isWebResult, resultSources } from "./block_sources.ts";
import { toDetail } from "./thinking_blocks.ts";

/** A block that has begun. */
interface OpenBlock {
  block: JsonObject;
  /** Place among the answer's blocks. */
  place: number;
  /** Place among the answer's calls. */
  call: number;
  /** Whether arguments have come. */
  filled: boolean;
  /** Length of the answer's text where the block begins, in UTF-16 code units. */
  textFrom: number;
  /** What the text of the block rests on. */
  citations: Json[];
  /** Gives arguments the names that the client has for them; null where they are the same. */
  renamer: KeyRenamer | null;
}

/** Reads the content blocks of one answer: begun, filled and ended in a stream, or whole. */
export class BlockReader {
  readonly #facts: ChatAnswerFacts;
  readonly #open = new Map<Json, OpenBlock>();
  #places = 0;
  #calls = 0;
  readonly #sources = new SourceFilter();
  #textLength = 0;

  constructor(facts: ChatAnswerFacts) {
    this.#facts = facts;
  }

  /** Whether any text has come. */
  get hasText(): boolean {
    return this.#textLength > 0;
  }

  /** A block begins at an index of the provider's. */
  start(index: Json, block: JsonObject): AnswerPiece[] {
    const names = this.#facts.aliases?.get(String(block["name"]));
    const renamer = names === undefined ? null : new KeyRenamer(names);
    const place = this.#places;
    const open: OpenBlock = {
      block: { ...block },
      place,
      call: this.#calls,
      filled: false,
      textFrom: this.#textLength,
      citations: Array.isArray(block["citations"]) ? [...block["citations"]] : [],
      renamer,
    };
    switch (block["type"]) {
      case "text":
        this.#open.set(index, open);
        return this.#text(block["text"]);
      case "thinking":
        this.#open.set(index, open);
        this.#places++;
        return reasoning(block["thinking"]);
      case "redacted_thinking":
        this.#open.set(index, open);
        this.#places++;
        return [];
      case "tool_use": {
        this.#open.set(index, open);
        this.#places++;
        this.#calls++;
        const { id, name } = block;
        return [{
          type: "call",
          id: typeof id === "string" && id !== "" ? id : mintCallId(this.#facts, open.call),
          name: typeof name === "string" ? name : "",
          arguments: "",
        }];
      }
      default:
        return isWebResult(block) ? this.#sourcePieces(resultSources(block)) : [];
    }
  }

  /** More of a block. */
  delta(index: Json, delta: JsonObject): AnswerPiece[] {
    const open = this.#open.get(index);
    if (open === undefined) return [];
    const { block } = open;
    switch (delta["type"]) {
      case "text_delta":
        return this.#text(delta["text"]);
      case "citations_delta":
        if (open.citations.length < MAX_SOURCES) open.citations.push(delta["citation"] ?? null);
        return [];
      case "thinking_delta":
        block["thinking"] = textOf(block["thinking"]) + textOf(delta["thinking"]);
        return reasoning(delta["thinking"]);
      case "signature_delta":
        block["signature"] = textOf(block["signature"]) + textOf(delta["signature"]);
        return [];
      case "input_json_delta": {
        const text = textOf(delta["partial_json"]);
        if (text === "" || block["type"] !== "tool_use") return [];
        open.filled = true;
        return argumentsOf(open, open.renamer?.push(text) ?? text);
      }
      default:
        return [];
    }
  }

  /** A block has ended: what can only be told of it whole. */
  stop(index: Json): AnswerPiece[] {
    const open = this.#open.get(index);
    this.#open.delete(index);
    if (open === undefined) return [];
    const { block, place, filled, renamer } = open;
    if (block["type"] === "tool_use") {
      if (filled) return argumentsOf(open, renamer?.end() ?? "");
      // A call without arguments streams none, which is no JSON.
      const text = JSON.stringify(isJsonObject(block["input"]) ? block["input"] : {});
      return argumentsOf(open, renamer?.push(text) ?? text);
    }
    if (block["type"] === "text") {
      const cited = { start: open.textFrom, end: this.#textLength };
      return this.#sourcePieces(open.citations.map((citation) => citationSource(citation, cited)));
    }
    const detail = toDetail(block, place);
    return detail === null ? [] : [{ type: "details", details: [detail] }];
  }

  #text(value: Json | undefined): AnswerPiece[] {
    const text = textOf(value);
    if (text === "") return [];
    if (this.#textLength === 0) this.#places++;
    this.#textLength += text.length;
    return [{ type: "text", text }];
  }

  #sourcePieces(links: readonly (SourceLink | null)[]): AnswerPiece[] {
    return this.#sources.take(links).map((link) => ({ type: "source", link }));
  }
}

function argumentsOf({ call: index }: OpenBlock, text: string): AnswerPiece[] {
  return text === "" ? [] : [{ type: "arguments", index, text }];
}

function reasoning(value: Json | undefined): AnswerPiece[] {
  const text = textOf(value);
  return text === "" ? [] : [{ type: "reasoning", text }];
}

function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}
