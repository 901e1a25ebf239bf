/**
 * A hash of a text as an unsigned 32-bit number: FNV-1a over its UTF-16 units, then mixed so that every bit depends on
 * all of them. The same on every replica and in every version: who stays where is decided by it.
 */
export function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) {
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  }
  return mix(hash);
}

/** A number in (0, 1) that two hashes draw together. */
export function drawFrom(key: number, place: number): number {
  const hash = mix(Math.imul(mix(key ^ 0x9e3779b9), 0x85ebca6b) ^ place);
  return (hash + 0.5) / 0x1_0000_0000;
}

/**
 * How far behind a place of this weight stands after drawing `draw`: the smallest comes first. Over many draws each
 * place is first as often as its share of the weights says, and a place that goes or comes moves nobody between the
 * others (weighted rendezvous hashing). A weight of 0 stands behind all others.
 */
export function drawnRank(draw: number, weight: number): number {
  return -Math.log(draw) / weight;
}

/** The finalizer of MurmurHash3. */
function mix(value: number): number {
  let hash = value ^ (value >>> 16);
  hash = Math.imul(hash, 0x85ebca6b);
  hash ^= hash >>> 13;
  hash = Math.imul(hash, 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
