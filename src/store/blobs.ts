import { type Id, isId, toUuid } from "../core/id.ts";
import { wellFormedText } from "../core/well_formed.ts";
import type { Database } from "./database.ts";

/** Keeps a text that was too long for a result. */
export async function saveBlob(
  db: Database,
  blob: {
    tenantId: string;
    blobId: string;
    sessionId: string;
    runId: string;
    toolCallId: string;
    text: string;
  },
): Promise<void> {
  const uuid = (id: string) => toUuid(id as Id);
  await db.within(db.control`
    insert into hub.blobs (tenant_id, blob_id, session_id, run_id, tool_call_id, content)
    values (${blob.tenantId}, ${uuid(blob.blobId)}, ${uuid(blob.sessionId)}, ${uuid(blob.runId)},
      ${uuid(blob.toolCallId)}, ${wellFormedText(blob.text)})`);
}

/** A kept text of this session; null when the session has none of that id. */
export async function readBlob(
  db: Database,
  key: { tenantId: string; sessionId: string; blobId: string },
): Promise<string | null> {
  if (!isId("blob", key.blobId)) return null;
  const rows = await db.within(db.read<{ content: string }[]>`
    select content from hub.blobs where tenant_id = ${key.tenantId}
      and session_id = ${toUuid(key.sessionId as Id)} and blob_id = ${toUuid(key.blobId)}`);
  return rows[0]?.content ?? null;
}
