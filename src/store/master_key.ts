import { join } from "node:path";
import { HubError } from "../core/error.ts";

/** The key that all secrets at rest depend on: 32 bytes. */
export interface MasterKey {
  bytes: Uint8Array;
  /** Names the key in encrypted rows: 16 hex digits of its SHA-256. */
  id: string;
}

/**
 * The master key: `given` (64 hex digits, from `LOOPHUB_MASTER_KEY`), else the file `master.key` of the data folder,
 * which is made at the first start and readable by the hub's user only. Throws `invalid_configuration`.
 */
export async function loadMasterKey(
  options: {
    given: string | undefined;
    dataDir: string;
    randomBytes: (length: number) => Uint8Array;
  },
): Promise<MasterKey> {
  const text = options.given ?? await readOrMake(join(options.dataDir, "master.key"), options);
  if (!/^[0-9a-f]{64}$/i.test(text.trim())) {
    throw new HubError(
      "invalid_configuration",
      `The master key must be 64 hex digits, but ${text.trim().length} characters of another form came`,
    );
  }
  const bytes = Uint8Array.fromHex(text.trim());
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return { bytes, id: digest.toHex().slice(0, 16) };
}

async function readOrMake(
  path: string,
  { dataDir, randomBytes }: { dataDir: string; randomBytes: (length: number) => Uint8Array },
): Promise<string> {
  await Deno.mkdir(dataDir, { recursive: true });
  try {
    await Deno.writeTextFile(path, `${randomBytes(32).toHex()}\n`, {
      createNew: true,
      mode: 0o600,
    });
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
  }
  return await Deno.readTextFile(path);
}
