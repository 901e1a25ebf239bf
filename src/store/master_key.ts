import { join } from "node:path";
import { HubError } from "../core/error.ts";
import { toFolderProblem } from "./folder_problem.ts";

/** The key that all secrets at rest depend on: 32 bytes. */
export interface MasterKey {
  bytes: Uint8Array;
  /** Names the key in encrypted rows: 16 hex digits of its SHA-256. */
  id: string;
  /** Keys from before it, the newest first: what they sealed is still read. */
  former?: readonly MasterKey[];
}

/**
 * The master key: `given` (64 hex digits, from `LOOPHUB_MASTER_KEY`), else the file `master.key` of the data folder,
 * which is made at the first start and readable by the hub's user only. Of several, apart by commas or white space, the
 * first seals and all open. Throws `invalid_configuration`.
 */
export async function loadMasterKey(
  options: {
    given: string | undefined;
    dataDir: string;
    randomBytes: (length: number) => Uint8Array;
  },
): Promise<MasterKey> {
  const { given, dataDir } = options;
  const text = given ?? await readOrMake(join(dataDir, "master.key"), options)
    .catch((error: unknown) => {
      throw toFolderProblem(error, dataDir);
    });
  const [first, ...others] = text.trim().split(/[\s,]+/);
  const key = await toKey(first ?? "");
  return others.length === 0 ? key : { ...key, former: await Promise.all(others.map(toKey)) };
}

async function toKey(text: string): Promise<MasterKey> {
  if (!/^[0-9a-f]{64}$/i.test(text)) {
    throw new HubError(
      "invalid_configuration",
      `The master key must be 64 hex digits, but ${text.length} characters of another form came`,
    );
  }
  const bytes = Uint8Array.fromHex(text);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return { bytes, id: digest.toHex().slice(0, 16) };
}

async function readOrMake(
  path: string,
  { dataDir, randomBytes }: { dataDir: string; randomBytes: (length: number) => Uint8Array },
): Promise<string> {
  const made = await readIfThere(path);
  if (made !== "") return made;
  await Deno.mkdir(dataDir, { recursive: true });
  using file = await Deno.open(path, { create: true, append: true, mode: 0o600 });
  await file.lock(true);
  // Another hub may have made it meanwhile; an empty file is all that one left that died before it wrote.
  const text = await readIfThere(path);
  if (text !== "") return text;
  const key = `${randomBytes(32).toHex()}\n`;
  await file.write(new TextEncoder().encode(key));
  // What is hashed and sealed with the key must not outlive it in a power cut.
  await file.sync();
  return key;
}

async function readIfThere(path: string): Promise<string> {
  try {
    return await Deno.readTextFile(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "";
    throw error;
  }
}
