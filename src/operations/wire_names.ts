import { createHash } from "node:crypto";

/** Full tool names to names on the wire and back, for one fixed set of tools. */
export interface WireNames {
  /** The wire name of any full name; a name outside the set gets one too (history may hold tools that are gone). */
  toWire(fullName: string): string;
  /** The full name, or null when no tool of the set has this wire name. A full name itself is understood too. */
  fromWire(wireName: string): string | null;
}

/** Names that every model API accepts. */
export const WIRE_NAME = /^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/;

const MAX_LENGTH = 64;
const HASH_LENGTHS = [8, 16, 32, 63];

/**
 * Makes the map between full names (`namespace.name`) and wire names. Each name is cleaned; one that overflows, and
 * all that would share a clean name, become its first characters, `_` and hex digits of the SHA-256 of the full name
 * (55 + 1 + 8). The result depends on the set alone, never on its order, and wire names are only ever looked up.
 */
export function createWireNames(fullNames: Iterable<string>): WireNames {
  const all = [...new Set(fullNames)].sort();
  const clean = new Map<string, string[]>();
  for (const full of all) {
    const name = cleanName(full);
    clean.set(name, [...clean.get(name) ?? [], full]);
  }
  const byWire = new Map<string, string>();
  const byFull = new Map<string, string>();
  const give = (full: string, wire: string) => {
    byWire.set(wire, full);
    byFull.set(full, wire);
  };
  const crowded: string[] = [];
  for (const [name, owners] of clean) {
    const [only] = owners;
    if (only !== undefined && owners.length === 1 && name.length <= MAX_LENGTH) give(only, name);
    else crowded.push(...owners);
  }
  const hashed = (full: string) => {
    for (const length of HASH_LENGTHS) {
      const wire = hashedName(full, length);
      if (!byWire.has(wire)) return wire;
    }
    return hashedName(full, 63);
  };
  for (const full of crowded.sort()) give(full, hashed(full));
  return {
    toWire(fullName) {
      const known = byFull.get(fullName);
      if (known !== undefined) return known;
      const name = cleanName(fullName);
      return name.length <= MAX_LENGTH && !byWire.has(name) ? name : hashed(fullName);
    },
    fromWire: (wireName) => byWire.get(wireName) ?? (byFull.has(wireName) ? wireName : null),
  };
}

function cleanName(full: string): string {
  const name = full.replace(/[^a-zA-Z0-9_-]/gu, "_");
  return /^[a-zA-Z_]/.test(name) ? name : `_${name}`;
}

function hashedName(full: string, hexLength: number): string {
  const hex = createHash("sha256").update(full, "utf8").digest("hex").slice(0, hexLength);
  return `${cleanName(full).slice(0, MAX_LENGTH - 1 - hexLength)}_${hex}`;
}
