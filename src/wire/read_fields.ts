import { nextTurn } from "../core/next_turn.ts";
import { type AskedSize, FieldReader, type FieldReading } from "./field_reader.ts";
import type { CompiledRules } from "./field_rules.ts";
import type { Span } from "./json_bytes.ts";
import { MemberScan } from "./member_scan.ts";

const BRACE = 0x7b;
/** Bytes of a field behind which the event loop turns. */
const LONG_FIELD = 256 * 1024;
const NOTHING: AskedSize = { limit: 0, isLimited: false, added: 0, answers: 1 };

/**
 * Reads what a request's fields ask for; the event loop turns while a long one is scanned. A strict reading rejects with
 * `invalid_request` and the code `field_not_allowed` for fields that are unknown, spelled like another one, named twice or
 * of the wrong type.
 */
export async function readFields(
  body: Uint8Array,
  rules: CompiledRules,
  reading: FieldReading,
): Promise<AskedSize> {
  if (body.find((byte) => byte > 0x20) !== BRACE) return NOTHING;
  const fields: [name: string, span: Span][] = [];
  await new MemberScan(body, (name, span) => void fields.push([name, span])).scanInSteps();
  const reader = new FieldReader(rules, reading);
  for (const [name, { from, to }] of fields) {
    reader.field(name, body.subarray(from, to));
    if (to - from > LONG_FIELD) await nextTurn();
  }
  return reader.size;
}
