import { parseArgs } from "node:util";
import { HubError } from "../core/error.ts";
import { isId } from "../core/id.ts";
import type { HubOptions } from "../hub/hub_options.ts";
import { NOTHING, readPolicy } from "../policy/key_policy.ts";
import { makeBrowserToken } from "../policy/make_browser_token.ts";
import { type KeyActor, KeyDesk } from "../policy/manage_keys.ts";
import { Pepper } from "../policy/pepper.ts";
import type { Database } from "../store/database.ts";
import { listKeys, readKey, type StoredKey } from "../store/keys.ts";
import { loadMasterKey } from "../store/master_key.ts";
import { openPostgres } from "../store/open_postgres.ts";
import { DEFAULT_TENANT_ID } from "../store/tenant.ts";
import { type Command, type Forms, refuseCall } from "./command.ts";
import { EXIT } from "./exit_codes.ts";
import { KEY_OPTIONS, keyChange, type KeyOptions, parseSpan } from "./key_options.ts";
import { print, printError, printText } from "./print.ts";
import { loadSystemConfig, systemHubOptions } from "./system.ts";

/** What the arguments ask for. */
type Wish =
  | { kind: "create"; name: string; role: StoredKey["role"] }
  | { kind: "list" }
  | { kind: "set" | "rotate" | "revoke" | "expire"; keyId: string }
  | { kind: "token"; keyId: string };

const FORMS: Forms<Wish["kind"]> = {
  create: {
    args: "NAME [--role user|admin] [LIMITS]",
    summary: "make an API key and write it to stdout",
  },
  list: { args: "", summary: "all of them, without their secrets" },
  set: { args: "KEY_ID [--name NAME] [LIMITS]", summary: "change what one may do" },
  rotate: { args: "KEY_ID [--grace 24h]", summary: "give it another token" },
  expire: { args: "KEY_ID [--expires WHEN]", summary: "let it end, now unless told" },
  revoke: { args: "KEY_ID", summary: "end it for good" },
  token: {
    args: "KEY_ID --agent NAME --chat ID [--ttl 10m]",
    summary: "write a token for a page to stdout, for one agent and one chat",
  },
};
const NOTES =
  `LIMITS: --owner TEXT --tag TAG --expires WHEN --model NAME --agent NAME --tool NAME --budget daily=1.50
        --soft daily=1 --rpm N --tpm N --concurrent N --cache 1h --sessions own|owner|all
        --answers own|owner|none; --tag, --model, --agent, --tool, --budget (daily, monthly, total) and --soft may
        come several times. WHEN: a date, a time as RFC 3339, a span such as 30d, or never`;
const DEFAULT_GRACE = "24h";
const COMMAND_LINE: KeyActor = { tenantId: DEFAULT_TENANT_ID, keyId: null };

/** `loophub keys`. */
export const KEYS: Command = { name: "keys", forms: FORMS, notes: NOTES, run: keys };

/** Makes, lists, changes, rotates and revokes API keys, and makes browser tokens, beside a running hub too. */
async function keys(args: string[]): Promise<number> {
  const { values: { config, ...values }, positionals } = parseArgs({
    args,
    options: { config: { type: "string" }, ...KEY_OPTIONS },
    allowPositionals: true,
  });
  const wish = parseWish(positionals, values.role);
  if (wish === null) {
    return refuseCall(KEYS, positionals);
  }
  const options = systemHubOptions(await loadSystemConfig(config), { quiet: true });
  const postgres = await openPostgres(options.loaded, { ...options, share: true });
  const db = postgres.connect();
  try {
    if (wish.kind === "list") return await list(db, options.clock.now());
    const { env, randomBytes } = options;
    const given = env("LOOPHUB_MASTER_KEY");
    const key = await loadMasterKey({ given, dataDir: postgres.dataDir, randomBytes });
    const { notify } = options.loaded.config.database;
    const pepper = await Pepper.load({ ...options, db, key });
    const desk = new KeyDesk({ ...options, db, pepper, notify });
    if (wish.kind === "token") {
      return await makeToken(wish.keyId, { ...options, db, pepper, values });
    }
    return await grant(wish, { db, desk, values, nowMs: options.clock.now() });
  } finally {
    await db.close();
    await postgres.stop();
  }
}

async function grant(
  wish: Exclude<Wish, { kind: "list" | "token" }>,
  { db, desk, values, nowMs }: { db: Database; desk: KeyDesk; values: KeyOptions; nowMs: number },
): Promise<number> {
  if (wish.kind === "create") {
    const { name, role } = wish;
    const made = await desk.create(COMMAND_LINE, {
      ...keyChange(values, {}, nowMs),
      name,
      role,
    });
    return show(made, `${role} ${name}`);
  }
  const { keyId } = wish;
  switch (wish.kind) {
    case "rotate": {
      const grace = values.grace ?? DEFAULT_GRACE;
      const rotated = await desk.rotate(COMMAND_LINE, keyId, parseSpan(grace));
      return show(rotated, `rotated; the old one holds for ${grace}`);
    }
    case "revoke":
      await desk.revoke(COMMAND_LINE, keyId);
      print(`${keyId} is revoked; a hub that runs refuses it at once, without NOTIFY within 5 s`);
      return EXIT.ok;
    case "expire":
    case "set": {
      const key = await readKey(db, { tenantId: DEFAULT_TENANT_ID, keyId });
      const asked = wish.kind === "expire" ? { expires: values.expires ?? "0s" } : values;
      const change = keyChange(asked, key?.policy ?? {}, nowMs);
      if (Object.keys(change).length === 0) {
        return refuseCall(KEYS, [wish.kind, keyId], "no option says what to change");
      }
      const changed = await desk.change(COMMAND_LINE, keyId, change);
      printText(lineOf(changed, nowMs));
      return EXIT.ok;
    }
  }
}

/** Makes a browser token on the account of a key. */
async function makeToken(
  keyId: string,
  { db, pepper, clock, loaded: { config: { agents } }, values }:
    & Pick<HubOptions, "clock" | "loaded">
    & { db: Database; pepper: Pepper; values: KeyOptions },
): Promise<number> {
  const { agent: [agent, ...others] = [], chat: chatId, ttl } = values;
  if (agent === undefined || others.length > 0 || chatId === undefined) {
    return refuseCall(KEYS, ["token", keyId], "one --agent and one --chat have to be given");
  }
  const key = await readKey(db, { tenantId: DEFAULT_TENANT_ID, keyId });
  if (key === null) throw new HubError("not_found", `There is no key ${keyId}`);
  const policy = readPolicy(key.policy) ?? NOTHING;
  const seconds = ttl === undefined ? undefined : parseSpan(ttl) / 1000;
  const made = makeBrowserToken(key, { agent, chatId, seconds }, {
    policy,
    agents,
    pepper,
    clock,
  });
  printError(`holds until ${new Date(made.expiresAt).toISOString()}`);
  print(made.token);
  return EXIT.ok;
}

function show({ key, token }: { key: StoredKey; token: string }, what: string): number {
  printError(`${key.keyId} ${what}: the key, shown only now`);
  print(token);
  return EXIT.ok;
}

function parseWish(positionals: readonly string[], role = "user"): Wish | null {
  const [kind, subject, ...more] = positionals;
  if (more.length > 0) return null;
  if (kind === "list") return subject === undefined ? { kind } : null;
  if (subject === undefined) return null;
  switch (kind) {
    case "revoke":
    case "rotate":
    case "set":
    case "expire":
    case "token":
      return isId("key", subject) ? { kind, keyId: subject } : null;
  }
  if (kind !== "create" || (role !== "user" && role !== "admin")) return null;
  return { kind, name: subject, role };
}

async function list(db: Database, nowMs: number): Promise<number> {
  const all = (await listKeys(db)).toSorted((a, b) => a.keyId < b.keyId ? -1 : 1);
  for (const key of all) printText(lineOf(key, nowMs));
  return EXIT.ok;
}

function lineOf(key: StoredKey, nowMs: number): string {
  const line = `${key.keyId}  ${key.role.padEnd(5)}  ${stateOf(key, nowMs).padEnd(7)}  ${key.name}`;
  const owner = key.owner === null ? "" : `  owner=${key.owner}`;
  const tags = key.tags.length === 0 ? "" : `  tags=${key.tags.join(",")}`;
  const policy = Object.keys(key.policy).length === 0 ? "" : `  ${JSON.stringify(key.policy)}`;
  return line + owner + tags + policy;
}

function stateOf({ revokedAt, expiresAt }: StoredKey, nowMs: number): string {
  if (revokedAt !== null) return "revoked";
  return expiresAt !== null && expiresAt <= nowMs ? "expired" : "valid";
}
