import { HubError } from "../core/error.ts";
import { canonicalJson, type Json } from "../core/json.ts";
import type { Pins } from "./catalogue.ts";
import type { McpConnection } from "./connection.ts";
import type { WaitingTool } from "./offered_tools.ts";

/** A field in which two definitions differ. */
export interface ChangedField {
  field: string;
  before: Json;
  after: Json;
}

/** A connection, and whose it is: the uuid of a key, or null for all. */
export interface OwnedBy {
  owner: string | null;
  /** Of the owner; null for all. */
  tenantId: string | null;
  connection: McpConnection;
}

const FIELDS = [
  ...["description", "inputSchema", "readOnly", "idempotent"] as const,
  ...["hints", "title", "outputSchema"] as const,
];

/** What a definition says else than the one that counted; all of it where that is not known. */
export function changesOf({ tool, before }: WaitingTool): ChangedField[] {
  const pairs = FIELDS.map((field) => ({
    field,
    before: before?.[field] as Json ?? null,
    after: tool[field] as Json ?? null,
  }));
  return pairs.filter((pair) => canonicalJson(pair.before) !== canonicalJson(pair.after));
}

/** The pins of these definitions. Throws `conflict` when one of them does not wait: it has changed since, or is approved. */
export function pinsFor(connections: readonly OwnedBy[], hashes: readonly string[]): Pins {
  const waiting = connections.flatMap(({ connection }) => connection.offered.waiting);
  const byHash = new Map(waiting.map(({ hash, name }) => [hash, name]));
  const pins: Record<string, string> = Object.create(null);
  for (const hash of hashes) {
    const name = byHash.get(hash);
    if (name === undefined) {
      throw new HubError(
        "conflict",
        `No tool with the hash ${
          hash.slice(0, 64)
        } waits: it has changed since it was shown, or was approved; nothing was approved`,
        { clientCode: "tool_changed" },
      );
    }
    pins[name] = hash;
  }
  return pins;
}
