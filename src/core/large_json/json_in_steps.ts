import type { Json } from "../json.ts";
import { JsonShape } from "./json_shape.ts";
import type { JsonBounds } from "./shape_count.ts";
import { WorkStretch } from "../next_turn.ts";
import { parseJsonBody, type Reading, readPiece } from "../parse_json.ts";
import { PieceReader } from "./piece_reader.ts";

/** How far a document is read at once, in bytes; smaller ones are read whole. */
export interface StepSizes {
  wholeBytes?: number;
  pieceBytes?: number;
}

const WHOLE_BYTES = 128 * 1024;
const PIECE_BYTES = 64 * 1024;
/** Bytes between two turns of the event loop. */
const STRETCH_BYTES = 256 * 1024;

/**
 * `parseJsonBody` for documents of any size: the event loop turns every quarter of a megabyte, whatever the document is
 * made of. Rejects as that throws.
 */
export async function parseJsonInSteps(
  bytes: Uint8Array,
  bounds: JsonBounds = {},
  { wholeBytes = WHOLE_BYTES, pieceBytes = PIECE_BYTES }: StepSizes = {},
): Promise<Json> {
  if (bytes.length <= wholeBytes) return parseJsonBody(bytes, bounds);
  const stretch = new WorkStretch(STRETCH_BYTES);
  await measureShape(bytes, { bounds, stretch });
  return await new PieceReader(bytes, { stretch, pieceBytes, reading: "strict" }).read();
}

/** How a document is read whose bounds were checked before, or that has the bounds given here. */
export interface PlainReading extends StepSizes {
  /** Checked before anything is built of a large document. */
  bounds?: JsonBounds;
  /** Default `plain`: names and strings stay as they are. */
  reading?: Exclude<Reading, "strict">;
}

/** `JSON.parse` of UTF-8 for documents of any size. Rejects `invalid_json`, and `invalid_request` past a bound. */
export async function parsePlainJson(
  bytes: Uint8Array,
  { wholeBytes = WHOLE_BYTES, pieceBytes = PIECE_BYTES, bounds, reading = "plain" }: PlainReading =
    {},
): Promise<Json> {
  if (bytes.length <= wholeBytes) {
    return readPiece(bytes, { from: 0, before: "", after: "", reading });
  }
  const stretch = new WorkStretch(STRETCH_BYTES);
  if (bounds !== undefined) await measureShape(bytes, { bounds, stretch });
  return await new PieceReader(bytes, { stretch, pieceBytes, reading }).read();
}

async function measureShape(
  bytes: Uint8Array,
  { bounds, stretch }: { bounds: JsonBounds; stretch: WorkStretch },
): Promise<void> {
  const shape = new JsonShape(bounds);
  for (let from = 0; from < bytes.length; from += STRETCH_BYTES) {
    shape.push(bytes.subarray(from, from + STRETCH_BYTES));
    await stretch.spend(STRETCH_BYTES);
  }
}
