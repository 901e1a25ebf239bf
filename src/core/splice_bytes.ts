/** The bytes with those from `from` up to `to` exchanged for others; the bytes given are never written to. */
export function spliceBytes(
  bytes: Uint8Array,
  { from, to }: { from: number; to: number },
  middle: Uint8Array,
): Uint8Array {
  const spliced = new Uint8Array(bytes.length - (to - from) + middle.length);
  spliced.set(bytes.subarray(0, from));
  spliced.set(middle, from);
  spliced.set(bytes.subarray(to), from + middle.length);
  return spliced;
}
