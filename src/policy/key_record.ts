import type { AnswerReach, SessionReach } from "../core/ownership.ts";
import type { Principal } from "../core/tool.ts";

/** A key's row, without anything that would open a door. */
export interface KeyRecord {
  keyId: string;
  tenantId: string;
  name: string;
  role: Principal["role"];
  lookupId: string;
  /** HMAC-SHA-256 of the token, see `hashApiKey`. */
  hash: Uint8Array;
  /** Milliseconds since the epoch, null = never. */
  expiresAt: number | null;
  revokedAt: number | null;
  tags?: readonly string[];
  owner?: string | null;
  /** Of its policy. */
  sessions?: SessionReach | undefined;
  answers?: AnswerReach | undefined;
}

/** Whether the key, or this token of it, was revoked or has expired. */
export function hasEnded(
  { revokedAt, expiresAt }: Pick<KeyRecord, "revokedAt" | "expiresAt">,
  nowMs: number,
): boolean {
  return revokedAt !== null || (expiresAt !== null && expiresAt <= nowMs);
}
