import { Buffer } from "node:buffer";
import { isJsonObject, type Json } from "../core/json.ts";
import { encodeJsonInSteps } from "../core/large_json/encode_json.ts";
import { WorkStretch } from "../core/next_turn.ts";
import { parseAnswer } from "./read_members.ts";

/** How the vectors of an answer are written. */
export type EmbeddingEncoding = "float" | "base64";

const KEY = '"embedding"';
const QUOTE = 0x22;
const BRACKET = 0x5b;
const COLON = 0x3a;
const FLOAT_BYTES = 4;
/** Bytes that are searched between two turns of the event loop. */
const STRETCH_BYTES = 1024 * 1024;
/** Numbers that are written between two turns of the event loop. */
const STRETCH_NUMBERS = 64 * 1024;

/**
 * The answer with its vectors written as they were asked for: OpenAI's clients decode numbers that they take for base64
 * into garbage without an error. An answer that is written so already passes as it came.
 */
export async function toEncoding(
  answer: Uint8Array,
  wanted: EmbeddingEncoding,
): Promise<Uint8Array> {
  const written = await encodingOf(answer);
  if (written === null || written === wanted) return answer;
  const body = await parseAnswer(answer);
  if (!Array.isArray(body["data"])) return answer;
  const stretch = new WorkStretch(STRETCH_NUMBERS);
  const data: Json[] = [];
  for (const item of body["data"]) {
    const vector = isJsonObject(item) ? item["embedding"] ?? null : null;
    data.push(isJsonObject(item) ? { ...item, embedding: convert(vector) } : item);
    await stretch.spend(Array.isArray(vector) || typeof vector === "string" ? vector.length : 1);
  }
  return await encodeJsonInSteps({ ...body, data });
}

/** Looks at the first vector; null when there is none. */
async function encodingOf(answer: Uint8Array): Promise<EmbeddingEncoding | null> {
  const bytes = Buffer.from(answer.buffer, answer.byteOffset, answer.byteLength);
  const stretch = new WorkStretch(STRETCH_BYTES);
  for (let from = 0; from < bytes.length; from += STRETCH_BYTES) {
    // A name may begin in one piece and end in the next.
    const piece = bytes.subarray(from, from + STRETCH_BYTES + KEY.length);
    for (let found = piece.indexOf(KEY); found >= 0; found = piece.indexOf(KEY, found + 1)) {
      let at = skipSpace(bytes, from + found + KEY.length);
      if (bytes[at] !== COLON) continue;
      at = skipSpace(bytes, at + 1);
      if (bytes[at] === QUOTE) return "base64";
      if (bytes[at] === BRACKET) return "float";
    }
    await stretch.spend(piece.length);
  }
  return null;
}

function skipSpace(bytes: Uint8Array, from: number): number {
  let at = from;
  while (/\s/.test(String.fromCharCode(bytes[at] ?? 0))) at++;
  return at;
}

/** Little-endian 32-bit floats on both sides. */
function convert(vector: Json): Json {
  if (Array.isArray(vector) && vector.every((value) => typeof value === "number")) {
    const bytes = Buffer.alloc(vector.length * FLOAT_BYTES);
    vector.forEach((value, index) => bytes.writeFloatLE(value, index * FLOAT_BYTES));
    return bytes.toString("base64");
  }
  if (typeof vector !== "string") return vector;
  const bytes = Buffer.from(vector, "base64");
  return Array.from(
    { length: Math.floor(bytes.length / FLOAT_BYTES) },
    (_, index) => bytes.readFloatLE(index * FLOAT_BYTES),
  );
}
