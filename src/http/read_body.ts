import { HubError } from "../core/error.ts";
import { joinBytes } from "../core/join_bytes.ts";
import {
  type ContentFormat,
  createContentDecoder,
  formatOf,
  MAX_DECODED_RATIO,
  RatioExceeded,
} from "../wire/http1/content_decoder.ts";
import { bodyTooLarge, type HubRequest } from "./hub_request.ts";

/**
 * The whole body of a request, decoded. Rejects `body_too_large` when it is larger than `maxBytes`, on the wire or
 * decoded (decoding stops at the bound) or when it decodes to more than 256 times its size, `unsupported_media_type` for an unknown content coding, and
 * `invalid_request` when the coding is broken. The time it may take is the server's (`requestTimeoutMs`).
 */
export function readBody(request: HubRequest, maxBytes: number): Promise<Uint8Array> {
  const coding = request.header("content-encoding")?.trim().toLowerCase();
  if (coding === undefined || coding === "" || coding === "identity") {
    return request.collectBody(maxBytes);
  }
  const format = formatOf(coding);
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
  { format, maxBytes }: { format: ContentFormat; maxBytes: number },
): Promise<Uint8Array> {
  let rest: Uint8Array | null = bytes;
  const decoder = createContentDecoder(format, () => {
    const next = rest;
    rest = null;
    return Promise.resolve(next);
  });
  const pieces: Uint8Array[] = [];
  let size = 0;
  for (;;) {
    const piece = await decoder.read().catch((cause) => {
      throw cause instanceof RatioExceeded ? ratioTooHigh() : new HubError(
        "invalid_request",
        `The request body is not valid ${format}`,
        { cause },
      );
    });
    if (piece === null) return joinBytes(pieces);
    size += piece.length;
    if (size > maxBytes) {
      decoder.cancel();
      throw bodyTooLarge(maxBytes);
    }
    pieces.push(piece);
  }
}

function ratioTooHigh(): HubError {
  return new HubError(
    "body_too_large",
    `The request body decodes to more than ${MAX_DECODED_RATIO} times its compressed size`,
  );
}
