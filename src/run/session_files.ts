import type { Database } from "../store/database.ts";
import { readFile, saveFile, type StoredFile } from "../store/files.ts";

/** The files of one session. */
export interface SessionFiles {
  /** Stores a file; gives the path under which it is read. */
  save(file: StoredFile): Promise<string>;
  /** The file behind such a path; null for another address, or where there is none. */
  read(path: string): Promise<StoredFile | null>;
}

/** Gives access to the files of a session. */
export function sessionFiles(
  db: Database,
  session: { tenantId: string; sessionId: string },
): SessionFiles {
  const folder = `/v1/sessions/${session.sessionId}/files/`;
  return {
    save: async (file) => folder + await saveFile(db, { ...session, ...file }),
    async read(path) {
      if (!path.startsWith(folder)) return null;
      return await readFile(db, { ...session, sha256: path.slice(folder.length) });
    },
  };
}
