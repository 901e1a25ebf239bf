/** What files of a type begin with: bytes from an offset on. */
const SIGNATURES: readonly { mediaType: string; offset: number; bytes: readonly number[] }[] = [
  {
    mediaType: "image/png",
    offset: 0,
    bytes: [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a],
  },
  { mediaType: "image/jpeg", offset: 0, bytes: [0xff, 0xd8, 0xff] },
  { mediaType: "image/gif", offset: 0, bytes: [0x47, 0x49, 0x46, 0x38] },
  { mediaType: "image/webp", offset: 8, bytes: [0x57, 0x45, 0x42, 0x50] },
];

/** Types of images that the hub stores, and that pages may show: none of them can hold a script. */
export const IMAGE_TYPES: ReadonlySet<string> = new Set(
  SIGNATURES.map(({ mediaType }) => mediaType),
);

/** The type of an image by its first bytes; null for what is none of `IMAGE_TYPES`. */
export function imageTypeOf(content: Uint8Array): string | null {
  const found = SIGNATURES.find(({ offset, bytes }) =>
    bytes.every((byte, index) => content[offset + index] === byte)
  );
  return found?.mediaType ?? null;
}
