import { crc32 } from "node:zlib";
import { isJsonObject } from "../../core/json.ts";
import { type BegunCall, type EncodedUsageRow, idsOfUsageRow } from "../../store/usage_rows.ts";

/** What a journal holds of calls: rows that wait to be booked, and calls that were sent and have no row. */
export interface JournalRecords {
  rows: EncodedUsageRow[];
  begun: BegunCall[];
  /** Lines that are cut or damaged. */
  damaged: number;
}

/** Hex digits of a checksum, and the space behind them. */
const PREFIX = 9;
const encoder = new TextEncoder();

/** A record as one line with a checksum. The newline in front of it ends a line that was cut. */
export function encodeRecord(record: EncodedUsageRow | BegunCall): Uint8Array {
  const json = JSON.stringify(record);
  return encoder.encode(`\n${checksumOf(json)} ${json}\n`);
}

/** Reads the records of a file, the last one of each call. What a crash has cut, or what is no record, is left out. */
export function decodeRecords(text: string): JournalRecords {
  const rows = new Map<string, EncodedUsageRow>();
  const begun = new Map<string, BegunCall>();
  let damaged = 0;
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const json = line.slice(PREFIX);
    const record = line.startsWith(`${checksumOf(json)} `) ? JSON.parse(json) : null;
    if (typeof record === "string") {
      const row = record as EncodedUsageRow;
      rows.set(idsOfUsageRow(row).usageId, row);
    } else if (isBegun(record)) begun.set(record.row.usageId, record);
    else damaged++;
  }
  for (const usageId of rows.keys()) begun.delete(usageId);
  return { rows: [...rows.values()], begun: [...begun.values()], damaged };
}

/** The records of the file at `path`. Rejects as `Deno.readTextFile`. */
export async function readJournal(path: string): Promise<JournalRecords> {
  return decodeRecords(await Deno.readTextFile(path));
}

function isBegun(record: unknown): record is BegunCall {
  return isJsonObject(record) && isJsonObject(record["row"]) &&
    typeof record["row"]["usageId"] === "string";
}

function checksumOf(json: string): string {
  return crc32(json).toString(16).padStart(8, "0");
}
