import { createHash } from "node:crypto";
import { type Id, toUuid } from "../core/id.ts";
import { wellFormedText } from "../core/well_formed.ts";
import type { Database } from "./database.ts";

/** A file of a session, by its SHA-256. */
export interface StoredFile {
  mediaType: string;
  content: Uint8Array;
}

const SHA256 = /^[0-9a-f]{64}$/;

/** Keeps a file that a tool of a session gave; gives its SHA-256 in hex. One that is there already stays as it is. */
export async function saveFile(
  db: Database,
  { tenantId, sessionId, mediaType, content }: StoredFile & { tenantId: string; sessionId: string },
): Promise<string> {
  const sha256 = createHash("sha256").update(content).digest();
  await db.within(db.control`
    insert into hub.files (tenant_id, session_id, sha256, media_type, content)
    values (${tenantId}, ${toUuid(sessionId as Id)}, ${sha256}, ${wellFormedText(mediaType)},
      ${content})
    on conflict (tenant_id, session_id, sha256) do nothing`);
  return sha256.toString("hex");
}

/** A file of this session; null when it has none of that SHA-256. */
export async function readFile(
  db: Database,
  key: { tenantId: string; sessionId: string; sha256: string },
): Promise<StoredFile | null> {
  if (!SHA256.test(key.sha256)) return null;
  const rows = await db.within(db.read<StoredFile[]>`
    select media_type as "mediaType", content from hub.files where tenant_id = ${key.tenantId}
      and session_id = ${toUuid(key.sessionId as Id)}
      and sha256 = ${Uint8Array.fromHex(key.sha256)}`);
  return rows[0] ?? null;
}
