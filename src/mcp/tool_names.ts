import { createHash } from "node:crypto";

const MAX_LENGTH = 64;
const HASH_LENGTH = 6;

/**
 * The name that models and agents know a server's tool by: `slug__tool` when that is clean and fits, else cleaned, cut
 * and with a hash of both names. It depends on nothing but the two, and is only ever looked up, never parsed.
 */
export function toolName(slug: string, tool: string): string {
  const full = `${slug}__${tool}`;
  if (/^[A-Za-z0-9_-]+$/.test(full) && full.length <= MAX_LENGTH) return full;
  const hash = createHash("sha256").update(`${slug}\0${tool}`, "utf8").digest("hex");
  const clean = full.replace(/[^A-Za-z0-9_-]+/g, "_").slice(0, MAX_LENGTH - 1 - HASH_LENGTH);
  return `${clean}_${hash.slice(0, HASH_LENGTH)}`;
}
