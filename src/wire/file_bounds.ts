import { base64Bytes } from "../core/decode_base64.ts";
import { IMAGE_TYPES } from "../core/image_type.ts";
import {
  MAX_ALL_MODEL_FILES_BYTES,
  MAX_MODEL_FILE_BYTES,
  MAX_MODEL_FILES,
} from "../core/limits.ts";
import type { ModelEvent } from "../core/model.ts";
import { readDataUrl } from "./chat_fields.ts";

type FileEvent = Extract<ModelEvent, { type: "file" }>;

/** Holds the files that a model makes to their bounds: how many, how large, of which types. */
export class FileBounds {
  #files: number;
  #bytes = 0;

  /** `files`: how many there were before. */
  constructor(files = 0) {
    this.#files = files;
  }

  /** The file, counted, or what says that it was left out and why. Other events are given back as they are. */
  take(event: ModelEvent): ModelEvent {
    if (event.type !== "file") return event;
    const { url, mediaType } = event;
    const bytes = base64Bytes(readDataUrl(url)?.data ?? "");
    const reason = this.#refusal(event, bytes);
    if (reason !== null) return { type: "file-left-out", mediaType, bytes, reason };
    this.#files++;
    this.#bytes += bytes;
    return event;
  }

  #refusal({ mediaType }: FileEvent, bytes: number): string | null {
    if (!IMAGE_TYPES.has(mediaType)) {
      return `its type must be one of ${[...IMAGE_TYPES].join(", ")}`;
    }
    if (bytes > MAX_MODEL_FILE_BYTES) {
      return `it has ${bytes} bytes, and at most ${MAX_MODEL_FILE_BYTES} are stored`;
    }
    if (this.#files >= MAX_MODEL_FILES) return `one answer may bring ${MAX_MODEL_FILES} files`;
    return this.#bytes + bytes > MAX_ALL_MODEL_FILES_BYTES
      ? `the files of one answer may have ${MAX_ALL_MODEL_FILES_BYTES} bytes together`
      : null;
  }
}
