import { parseArgs } from "node:util";
import { isId } from "../core/id.ts";
import { derivePepper } from "../policy/api_key.ts";
import { issueKey } from "../policy/issue_key.ts";
import type { Database } from "../store/database.ts";
import { listKeys, revokeKey, type StoredKey } from "../store/keys.ts";
import { loadMasterKey } from "../store/master_key.ts";
import { notify } from "../store/notify.ts";
import { openPostgres } from "../store/open_postgres.ts";
import { DEFAULT_TENANT_ID } from "../store/tenant.ts";
import { EXIT } from "./exit_codes.ts";
import { print, printError } from "./print.ts";
import { loadSystemConfig, systemHubOptions } from "./system.ts";

/** What the arguments ask for. */
type Wish =
  | { kind: "create"; name: string; role: StoredKey["role"] }
  | { kind: "list" }
  | { kind: "revoke"; keyId: string };

const USAGE = `loophub keys wants one of

  loophub keys create NAME [--role user|admin]
  loophub keys list
  loophub keys revoke KEY_ID`;
const MAX_NAME_LENGTH = 100;

/** `loophub keys`: makes, lists and revokes API keys, beside a running hub too. */
export async function keys(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args,
    options: { config: { type: "string" }, role: { type: "string" } },
    allowPositionals: true,
  });
  const wish = parseWish(positionals, values.role);
  if (wish === null) {
    printError(USAGE);
    return EXIT.usage;
  }
  const options = systemHubOptions(await loadSystemConfig(values.config), { quiet: true });
  const postgres = await openPostgres(options.loaded, { ...options, share: true });
  const db = postgres.connect();
  // Without it a hub that runs looks by itself, some seconds later.
  const tellHubs = async () => {
    if (options.loaded.config.database.notify) await notify(db, { keys: true }).catch(() => {});
  };
  try {
    if (wish.kind === "list") return await list(db, options.clock.now());
    if (wish.kind === "revoke") return await revoke(db, wish.keyId, tellHubs);
    const { env, randomBytes } = options;
    const given = env("LOOPHUB_MASTER_KEY");
    const master = await loadMasterKey({ given, dataDir: postgres.dataDir, randomBytes });
    const pepper = derivePepper(master.bytes);
    const { keyId, token } = await issueKey(db, wish, { ...options, pepper });
    await tellHubs();
    printError(`${keyId} ${wish.role} ${wish.name}: the key, shown only now`);
    print(token);
    return EXIT.ok;
  } finally {
    await db.close();
    await postgres.stop();
  }
}

function parseWish(positionals: readonly string[], role = "user"): Wish | null {
  const [kind, subject, ...more] = positionals;
  if (more.length > 0) return null;
  if (kind === "list") return subject === undefined ? { kind } : null;
  if (subject === undefined) return null;
  if (kind === "revoke") return isId("key", subject) ? { kind, keyId: subject } : null;
  const name = subject.trim();
  const isNamed = name !== "" && name.length <= MAX_NAME_LENGTH;
  if (kind !== "create" || !isNamed || (role !== "user" && role !== "admin")) return null;
  return { kind, name, role };
}

async function list(db: Database, nowMs: number): Promise<number> {
  const all = (await listKeys(db)).toSorted((a, b) => a.keyId < b.keyId ? -1 : 1);
  for (const key of all) {
    print(`${key.keyId}  ${key.role.padEnd(5)}  ${stateOf(key, nowMs).padEnd(7)}  ${key.name}`);
  }
  return EXIT.ok;
}

function stateOf({ revokedAt, expiresAt }: StoredKey, nowMs: number): string {
  if (revokedAt !== null) return "revoked";
  return expiresAt !== null && expiresAt <= nowMs ? "expired" : "valid";
}

async function revoke(
  db: Database,
  keyId: string,
  tellHubs: () => Promise<void>,
): Promise<number> {
  if (await revokeKey(db, { tenantId: DEFAULT_TENANT_ID, keyId })) {
    await tellHubs();
    print(`${keyId} is revoked; a hub that runs refuses it within five seconds`);
    return EXIT.ok;
  }
  printError(`There is no valid key ${keyId}`);
  return EXIT.failed;
}
