import { HubError } from "../core/error.ts";
import { joinBytes } from "../core/join_bytes.ts";
import { bodyTooLarge, type HubRequest } from "./hub_request.ts";

/** Content codings (RFC 9110, 8.4.1) that request bodies may have. */
const DECODERS: Readonly<Record<string, CompressionFormat>> = {
  gzip: "gzip",
  "x-gzip": "gzip",
  deflate: "deflate",
};

/**
 * The whole body of a request, decoded. Rejects `body_too_large` when it is larger than `maxBytes`, on the wire or
 * decoded (a bomb is given up at the bound), `unsupported_media_type` for an unknown content coding, and
 * `invalid_request` when the coding is broken. The time it may take is the server's (`requestTimeoutMs`).
 */
export function readBody(request: HubRequest, maxBytes: number): Promise<Uint8Array> {
  const coding = request.header("content-encoding")?.trim().toLowerCase();
  if (coding === undefined || coding === "" || coding === "identity") {
    return request.collectBody(maxBytes);
  }
  const format = DECODERS[coding];
  if (format === undefined) {
    return Promise.reject(
      new HubError(
        "unsupported_media_type",
        `The request body has the content encoding ${
          coding.slice(0, 40)
        }, wanted gzip, deflate or none`,
      ),
    );
  }
  return request.collectBody(maxBytes).then((bytes) => decodeBody(bytes, { format, maxBytes }));
}

/** Throws `unsupported_media_type` unless the body is said to be JSON (RFC 6839 suffix included) or nothing is said. */
export function assertJsonContentType(request: HubRequest): void {
  const type = request.header("content-type");
  if (type === null) return;
  const essence = (type.split(";")[0] ?? "").trim().toLowerCase();
  if (essence === "application/json" || essence.endsWith("+json")) return;
  throw new HubError(
    "unsupported_media_type",
    `The request body is ${essence.slice(0, 80) || "of no type"}, wanted application/json`,
  );
}

async function decodeBody(
  bytes: Uint8Array,
  { format, maxBytes }: { format: CompressionFormat; maxBytes: number },
): Promise<Uint8Array> {
  const decoder = new DecompressionStream(format);
  const writer = decoder.writable.getWriter();
  // Both fail together with the reader below, which is the one that tells.
  const written = writer.write(new Uint8Array(bytes)).then(() => writer.close()).catch(() => {});
  const reader = decoder.readable.getReader();
  const pieces: Uint8Array[] = [];
  let size = 0;
  for (;;) {
    const piece = await reader.read().catch((cause) => {
      throw new HubError("invalid_request", `The request body is not valid ${format}`, { cause });
    });
    if (piece.done) break;
    size += piece.value.length;
    if (size > maxBytes) {
      await reader.cancel().catch(() => {/* given up anyway */});
      throw bodyTooLarge(maxBytes);
    }
    pieces.push(piece.value);
  }
  await written;
  return joinBytes(pieces);
}
