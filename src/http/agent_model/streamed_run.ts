import { HubError } from "../../core/error.ts";
import { joinBytes } from "../../core/join_bytes.ts";
import type { JsonObject } from "../../core/json.ts";
import { ChunkWriter } from "../../wire/chat_answer.ts";
import type { ChatAnswerFacts } from "../../wire/chat_dialect.ts";
import { DONE_FRAME } from "../../wire/ui_stream.ts";
import type { ReadableAnswer } from "../routes/completion_reply.ts";
import type { RunEvents } from "../routes/run_source.ts";
import { RunPieces, type RunPiecesOptions } from "./run_pieces.ts";

const encoder = new TextEncoder();

/**
 * A run as the chunks of a chat completion, once there is something to say. Rejects with what the run has failed with
 * before.
 */
export async function openStreamedRun(
  events: RunEvents,
  options: RunPiecesOptions & { facts: ChatAnswerFacts },
): Promise<ReadableAnswer> {
  const frames = readFrames(events, options);
  let first: IteratorResult<Uint8Array, void> | null = await frames.next();
  return {
    async read() {
      const { value } = first ?? await frames.next();
      first = null;
      return value ?? null;
    },
    cancel() {
      void events.return(false);
    },
  };
}

async function* readFrames(
  events: RunEvents,
  { facts, ...options }: RunPiecesOptions & { facts: ChatAnswerFacts },
): AsyncGenerator<Uint8Array, void, void> {
  const pieces = new RunPieces(options);
  const writer = new ChunkWriter(facts);
  for await (const page of events) {
    const chunks: JsonObject[] = [];
    for (const { event } of page) {
      if (event.type !== "finish") {
        chunks.push(...writer.pieces(pieces.take(event)));
        continue;
      }
      if (chunks.length > 0) yield toFrames(chunks);
      const end = pieces.end(event);
      const last = [...writer.pieces(end.pieces), ...writer.finish(end.finishReason, end.usage)];
      yield joinBytes([toFrames(last), DONE_FRAME]);
      return;
    }
    if (chunks.length > 0) yield toFrames(chunks);
  }
  throw new HubError(
    "lease_lost",
    "The run goes on elsewhere: follow the one that x-loophub-run names",
  );
}

function toFrames(chunks: readonly JsonObject[]): Uint8Array {
  return encoder.encode(chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join(""));
}
