import type { JsonObject } from "../../core/json.ts";
import type { ItemEvent, ItemPlace, OpenItem } from "./output_items.ts";

/** An image that the model made. It comes whole, so that its events follow each other at once. */
export class ImageItem implements OpenItem {
  readonly item: JsonObject;
  readonly whole = true;
  readonly #place: ItemPlace;

  /** `image`: what a `data:` URL holds. */
  constructor(place: ItemPlace, image: { mediaType: string; data: string }) {
    this.#place = place;
    this.item = {
      id: place.id,
      type: "image_generation_call",
      status: "completed",
      output_format: image.mediaType.replace(/^image\//, ""),
      result: image.data,
    };
  }

  open(): ItemEvent[] {
    const { id, outputIndex: output_index } = this.#place;
    const at = { item_id: id, output_index };
    const empty = { ...this.item, status: "in_progress", result: null };
    return [
      { type: "response.output_item.added", output_index, item: empty },
      { type: "response.image_generation_call.in_progress", ...at },
      { type: "response.image_generation_call.completed", ...at },
      { type: "response.output_item.done", output_index, item: this.item },
    ];
  }

  close(): ItemEvent[] {
    return [];
  }
}
