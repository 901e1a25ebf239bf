import { HubError } from "../core/error.ts";
import type { Account } from "./shell.ts";

/**
 * The user that Postgres runs as: null for the hub's own, and another one when the hub is root, because Postgres
 * refuses uid 0. Throws `invalid_configuration` when the machine has no user for it.
 */
export async function findPostgresAccount(): Promise<Account | null> {
  if (Deno.uid() !== 0) return null;
  const accounts = parseAccounts(await Deno.readTextFile("/etc/passwd"));
  const account = accounts.get("postgres") ?? accounts.get("nobody");
  if (account !== undefined) return account;
  throw new HubError(
    "invalid_configuration",
    "The embedded Postgres does not run as root, and /etc/passwd has neither a user postgres nor nobody: " +
      "start the hub as another user, add one of them, or set DATABASE_URL",
  );
}

/** The users of an `/etc/passwd` file by name; root and broken lines are left out. */
export function parseAccounts(passwd: string): Map<string, Account> {
  const accounts = new Map<string, Account>();
  for (const line of passwd.split("\n")) {
    const [name = "", , uidText = "", gidText = ""] = line.split(":");
    const uid = Number(uidText);
    const gid = Number(gidText);
    if (name === "" || uidText === "" || gidText === "") continue;
    if (!Number.isInteger(uid) || !Number.isInteger(gid) || uid <= 0) continue;
    accounts.set(name, { name, uid, gid });
  }
  return accounts;
}
