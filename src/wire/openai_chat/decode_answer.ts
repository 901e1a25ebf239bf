import type { ModelEvent } from "../../core/model.ts";
import { createChatDecoder } from "./decode_stream.ts";

/**
 * The model events of a whole answer, those of one read together. What came before a failure is given before it
 * throws; for the failures see `ChatDecoder`.
 */
export async function* decodeChatAnswer(
  read: () => Promise<Uint8Array | null>,
): AsyncGenerator<ModelEvent[], void, void> {
  const decoder = createChatDecoder();
  for (let bytes = await read(); bytes !== null; bytes = await read()) {
    let events: ModelEvent[];
    try {
      events = decoder.push(bytes);
    } catch (error) {
      yield decoder.rest();
      throw error;
    }
    if (events.length > 0) yield events;
  }
  yield decoder.end();
}
