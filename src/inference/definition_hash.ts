import { createHash } from "node:crypto";
import { canonicalJson, type Json } from "../core/json.ts";
import type { Tool } from "../core/tool.ts";

/** SHA-256, hex, of what a tool says of itself, and of where it runs. */
export function definitionHash(
  { name, description, inputSchema, effect, risk, place }: Tool,
): string {
  const said = { name, description, inputSchema, effect, risk };
  return hashOf(place === undefined ? said : { ...said, place });
}

/** SHA-256, hex, of a JSON value, whatever the order of its members. */
export function hashOf(value: Json): string {
  return createHash("sha256").update(canonicalJson(value)).digest("hex");
}
