import type { KeyPolicy } from "../../src/policy/key_policy.ts";
import { readWindows, type ReservationWish, type WindowClaim } from "../../src/store/budgets.ts";
import type { Database } from "../../src/store/database.ts";
import { createKey } from "../../src/store/keys.ts";
import { DEFAULT_TENANT_ID as tenantId } from "../../src/store/tenant.ts";
import { testIds } from "./postgres.ts";

/** The windows of a call outside of any agent's budget, and one of an agent's. */
export const WINDOWS: WindowClaim[] = [
  { id: "2026-11-21", path: ["budgets", "daily"] },
  { id: "2026-11", path: ["budgets", "monthly"] },
  { id: "total", path: ["budgets", "total"] },
];
export const AGENT: WindowClaim = {
  id: "agent clerk total",
  path: ["agentBudgets", "clerk", "total"],
};
export const WINDOW_IDS = [...WINDOWS, AGENT].map(({ id }) => id);

/** A key with a policy. */
export async function newKey(db: Database, policy: KeyPolicy): Promise<string> {
  const keyId = testIds.next("key");
  const hash = new Uint8Array(32);
  const lookupId = keyId.slice(-16);
  await createKey(db, { tenantId, keyId, name: "k", role: "user", lookupId, hash, policy });
  return keyId;
}

/** A wish for a reservation with an id of its own. */
export function wishOf(keyId: string, amountMicros: number, windows = WINDOWS): ReservationWish {
  const usageId = testIds.next("usg");
  return { tenantId, keyId, usageId, requestId: "req_1", amountMicros, leaseMs: 60_000, windows };
}

/** What is reserved in a key's total; undefined while it does not stand. */
export async function reservedOf(db: Database, keyId: string): Promise<number | undefined> {
  return (await readWindows(db, { tenantId, keyId, ids: ["total"] }))[0]?.reservedMicros;
}

/** Sum and number of the reservations that are neither settled nor free. */
export async function liveOf(
  db: Database,
  keyId: string,
): Promise<[micros: number, count: number]> {
  const [row] = await db.read`
    select coalesce(sum(amount_micros), 0)::float8 as micros, count(*)::int as count from hub.reservations
    where tenant_id = ${tenantId} and key_id = ${keyId.slice(4)} and settled_at is null`;
  return [row?.["micros"], row?.["count"]];
}
