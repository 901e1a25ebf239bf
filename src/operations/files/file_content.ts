import { createHash } from "node:crypto";

/** What is in a file, as a model can take it. */
export type FileContent =
  | { kind: "text"; text: string }
  | { kind: "image"; mediaType: string }
  | { kind: "binary" };

const IMAGES: readonly { mediaType: string; starts: readonly (number | null)[] }[] = [
  { mediaType: "image/png", starts: [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a] },
  { mediaType: "image/jpeg", starts: [0xff, 0xd8, 0xff] },
  { mediaType: "image/gif", starts: [0x47, 0x49, 0x46, 0x38] },
  {
    mediaType: "image/webp",
    starts: [0x52, 0x49, 0x46, 0x46, null, null, null, null, 0x57, 0x45, 0x42, 0x50],
  },
];
/** Bytes within which a NUL tells that a file is no text. */
const LOOKED_AT = 8192;
const HASH_CHARS = 16;

/** Tells text from images by their first bytes, and from all else by NULs and by what is no UTF-8. */
export function readContent(bytes: Uint8Array): FileContent {
  const image = IMAGES.find(({ starts }) =>
    starts.every((byte, at) => byte === null || bytes[at] === byte)
  );
  if (image !== undefined) return { kind: "image", mediaType: image.mediaType };
  if (bytes.subarray(0, LOOKED_AT).includes(0)) return { kind: "binary" };
  try {
    return {
      kind: "text",
      text: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes),
    };
  } catch {
    return { kind: "binary" };
  }
}

/** What tells one content from another, short enough for a model to repeat. */
export function contentHash(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex").slice(0, HASH_CHARS);
}
