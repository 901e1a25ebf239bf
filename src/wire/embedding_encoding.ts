import { Buffer } from "node:buffer";
import { isJsonObject, type Json } from "../core/json.ts";

/** How the vectors of an answer are written. */
export type EmbeddingEncoding = "float" | "base64";

const KEY = '"embedding"';
const QUOTE = 0x22;
const BRACKET = 0x5b;
const COLON = 0x3a;
const FLOAT_BYTES = 4;

/**
 * The answer with its vectors written as they were asked for: OpenAI's clients decode numbers that they take for base64
 * into garbage without an error. An answer that is written so already passes as it came.
 */
export function toEncoding(answer: Uint8Array, wanted: EmbeddingEncoding): Uint8Array {
  const written = encodingOf(answer);
  if (written === null || written === wanted) return answer;
  const body: unknown = JSON.parse(new TextDecoder().decode(answer));
  if (!isJsonObject(body) || !Array.isArray(body["data"])) return answer;
  const data = body["data"].map((item) =>
    isJsonObject(item) ? { ...item, embedding: convert(item["embedding"] ?? null) } : item
  );
  return new TextEncoder().encode(JSON.stringify({ ...body, data }));
}

/** Looks at the first vector; null when there is none. */
function encodingOf(answer: Uint8Array): EmbeddingEncoding | null {
  const bytes = Buffer.from(answer.buffer, answer.byteOffset, answer.byteLength);
  for (let at = bytes.indexOf(KEY); at >= 0; at = bytes.indexOf(KEY, at)) {
    at = skipSpace(bytes, at + KEY.length);
    if (bytes[at] !== COLON) continue;
    at = skipSpace(bytes, at + 1);
    if (bytes[at] === QUOTE) return "base64";
    if (bytes[at] === BRACKET) return "float";
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
