import { createHash } from "node:crypto";

import type { LoadedMcpServer } from "../config/complete_mcp_servers.ts";

type Named = Pick<LoadedMcpServer, "slug" | "isPrefixed">;

const MAX_LENGTH = 64;
const HASH_LENGTH = 6;

/**
 * The name that models, agents and clients know a server's tool or prompt by: `slug__tool`, without a prefix `tool`, when
 * that is clean and fits, else cleaned, cut and with a hash of both names. It depends on nothing but the two, and is only
 * ever looked up, never parsed.
 */
export function toolName({ slug, isPrefixed }: Named, tool: string): string {
  const full = isPrefixed ? `${slug}__${tool}` : tool;
  if (/^[A-Za-z0-9_-]+$/.test(full) && full.length <= MAX_LENGTH) return full;
  const hash = createHash("sha256").update(`${slug}\0${tool}`, "utf8").digest("hex");
  const clean = full.replace(/[^A-Za-z0-9_-]+/g, "_").slice(0, MAX_LENGTH - 1 - HASH_LENGTH);
  return `${clean}_${hash.slice(0, HASH_LENGTH)}`;
}

/** The name that patterns of keys and agents know a resource, or a template of resources, by. */
export function resourceName({ slug, isPrefixed }: Named, uri: string): string {
  return isPrefixed ? `${slug}__${uri}` : uri;
}

/** The URI that clients of the hub know a server's resource by, or that of a template. */
export function outwardUri({ slug, isPrefixed }: Named, uri: string): string {
  return isPrefixed ? `mcp+${slug}+${uri}` : uri;
}
