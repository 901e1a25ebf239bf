import type { BodySource } from "../../core/body_source.ts";
import { HubError } from "../../core/error.ts";
import { joinBytes } from "../../core/join_bytes.ts";
import { spliceBytes } from "../../core/splice_bytes.ts";
import { boundaryOf, MultipartScan } from "../../wire/multipart.ts";
import { scanMembers, wrongType } from "../../wire/openai_chat/scan_request.ts";
import type { FormFields } from "../../router/carried.ts";
import type { Call } from "../call.ts";
import { assertJsonContentType } from "../read_body.ts";

/** A request's body on its way to a provider. */
export interface CarriedBody {
  /** The model that it names; null for none. */
  model: string | null;
  /** How many answers it asks for: its `n`. */
  choices: number;
  /** Null when there is no body. */
  contentType: string | null;
  /** Its size tells nothing of what it costs: it has a file. */
  isForm: boolean;
  /** The form's fields, where the hub reads them. */
  form?: FormFields;
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
const encoder = new TextEncoder();

/** What a request is without a body. */
export const NO_BODY: CarriedBody = {
  model: null,
  choices: 1,
  contentType: null,
  isForm: false,
  isStreamed: false,
  forModel: () => ({ body: NO_BYTES }),
};

/** A file on its way: nothing of it is held. */
export function uploadBody({ request }: Call, bounds: BodyBounds): CarriedBody {
  const contentType = request.header("content-type") ?? "";
  boundaryOf(contentType);
  assertPlain(request.header("content-encoding"));
  const source = request.streamBody(bounds.streamed);
  return {
    ...NO_BODY,
    contentType,
    isForm: true,
    isStreamed: true,
    forModel: () => ({ body: NO_BYTES, source }),
  };
}

/** A body of JSON, or a form where one with a model is taken, or none. Throws what its reader throws. */
export async function readCarriedBody(
  call: Call,
  { bounds, takesModel, takesCount }: {
    bounds: BodyBounds;
    takesModel: boolean;
    takesCount: boolean;
  },
): Promise<CarriedBody> {
  const type = call.request.header("content-type") ?? "";
  if (takesModel && /^multipart\//i.test(type.trim())) {
    return await readForm(call, { ...bounds, type });
  }
  assertJsonContentType(call.request);
  const body = await call.readBody();
  if (body.length === 0) return NO_BODY;
  const scan = await scanMembers(
    body,
    new Set([...takesModel ? ["model"] : [], ...takesCount ? ["n"] : []]),
  );
  const span = scan.spanOf("model");
  const model = scan.read("model") ?? null;
  if (model !== null && typeof model !== "string") {
    throw wrongType("model", model, "the name of a model");
  }
  const choices = scan.read("n") ?? 1;
  if (typeof choices !== "number" || !Number.isSafeInteger(choices) || choices < 1) {
    throw wrongType("n", choices, "a count");
  }
  return {
    ...NO_BODY,
    model,
    choices,
    contentType: "application/json",
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
    ...NO_BODY,
    model: found?.text ?? null,
    contentType: type,
    isForm: true,
    form: scan,
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
