import type { BodySource } from "../../core/body_source.ts";
import { HubError } from "../../core/error.ts";
import { joinBytes } from "../../core/join_bytes.ts";
import { spliceBytes } from "../../core/splice_bytes.ts";
import { boundaryOf, MultipartScan } from "../../wire/multipart.ts";
import { scanMembers, wrongType } from "../../wire/openai_chat/scan_request.ts";
import type { Call } from "../call.ts";
import { assertJsonContentType } from "../read_body.ts";

/** A request's body on its way to a provider. */
export interface CarriedBody {
  /** The model that it names; null for none. */
  model: string | null;
  /** Null when there is no body. */
  contentType: string | null;
  /** Whether it can be sent only once, as the hub does not hold all of it. */
  isStreamed: boolean;
  /** The body for a provider that calls the model so; all else stays as it came. */
  forModel(model: string): { body: Uint8Array; source?: BodySource };
}

/** Bounds of bodies, in bytes. */
export interface BodyBounds {
  /** What is held of a body. */
  held: number;
  /** What may be sent on while it comes. */
  streamed: number;
}

const NO_BYTES = new Uint8Array(0);
const MODEL: ReadonlySet<string> = new Set(["model"]);
const encoder = new TextEncoder();

/** A file on its way: nothing of it is held. */
export function uploadBody({ request }: Call, bounds: BodyBounds): CarriedBody {
  const contentType = request.header("content-type") ?? "";
  boundaryOf(contentType);
  assertPlain(request.header("content-encoding"));
  const source = request.streamBody(bounds.streamed);
  return {
    model: null,
    contentType,
    isStreamed: true,
    forModel: () => ({ body: NO_BYTES, source }),
  };
}

/** A body of JSON or a form, or none. Throws what its reader throws. */
export async function readCarriedBody(call: Call, bounds: BodyBounds): Promise<CarriedBody> {
  const type = call.request.header("content-type") ?? "";
  if (/^multipart\//i.test(type.trim())) return await readForm(call, { ...bounds, type });
  assertJsonContentType(call.request);
  const body = await call.readBody();
  if (body.length === 0) {
    return { model: null, contentType: null, isStreamed: false, forModel: () => ({ body }) };
  }
  const scan = scanMembers(body, MODEL);
  const span = scan.spanOf("model");
  const model = scan.read("model") ?? null;
  if (model !== null && typeof model !== "string") {
    throw wrongType("model", model, "the name of a model");
  }
  return {
    model,
    contentType: "application/json",
    isStreamed: false,
    forModel: (name) => ({
      body: span === null || model === null || name === model
        ? body
        : spliceBytes(body, span, encoder.encode(JSON.stringify(name))),
    }),
  };
}

/** A form is held until it is whole, up to a bound; what is larger is sent on while it comes, once its model is known. */
async function readForm(
  { request }: Call,
  { held: maxHeld, streamed, type }: BodyBounds & { type: string },
): Promise<CarriedBody> {
  const scan = new MultipartScan(boundaryOf(type), "model");
  assertPlain(request.header("content-encoding"));
  const source = request.streamBody(streamed);
  const held: Uint8Array[] = [];
  let size = 0;
  let isWhole = false;
  while (!isWhole && size <= maxHeld) {
    const piece = await source.pull();
    if (piece === null) {
      scan.end();
      isWhole = true;
    } else {
      scan.push(piece);
      size += piece.length;
      held.push(piece);
    }
  }
  const { found } = scan;
  if (!isWhole && found === null) {
    throw new HubError(
      "body_too_large",
      `The form names no model within its first ${maxHeld} bytes; put the model before the file`,
      { param: "model" },
    );
  }
  const bytes = joinBytes(held);
  const named = (model: string) =>
    found === null || found.text === model
      ? bytes
      : spliceBytes(bytes, found.span, encoder.encode(model));
  return {
    model: found?.text ?? null,
    contentType: type,
    isStreamed: !isWhole,
    forModel(model) {
      const body = named(model);
      if (isWhole) return { body };
      const length = source.length === null ? null : source.length + body.length - bytes.length;
      return { body: NO_BYTES, source: rest(body, { source, scan, length }) };
    },
  };
}

/** What is held, then the rest while it comes: it may not name another model. */
function rest(
  first: Uint8Array,
  { source, scan, length }: { source: BodySource; scan: MultipartScan; length: number | null },
): BodySource {
  let isBegun = false;
  return {
    length,
    async pull() {
      if (!isBegun) {
        isBegun = true;
        return first;
      }
      const piece = await source.pull();
      if (piece === null) scan.end();
      else scan.push(piece);
      return piece;
    },
  };
}

function assertPlain(coding: string | null): void {
  if (coding === null || coding === "" || coding.toLowerCase() === "identity") return;
  throw new HubError(
    "unsupported_media_type",
    `A form with the content encoding ${coding.slice(0, 40)} is not taken, wanted none`,
  );
}
