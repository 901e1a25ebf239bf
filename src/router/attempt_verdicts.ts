import { HubError } from "../core/error.ts";
import { MAX_HELD_BYTES } from "../core/limits.ts";
import { readErrorText } from "../providers/read_whole.ts";
import type { UpstreamResponse } from "../providers/transport.ts";
import { type Redact, showProviderText } from "../wire/provider_text.ts";
import type { TapFacts } from "../wire/sse_tap.ts";
import { toAnswerError, toUpstreamError } from "../wire/upstream_error.ts";
import type { WireDialect } from "../wire/wire_dialect.ts";
import type { AttemptOptions } from "./attempt_options.ts";

/** Failures in which nothing reached the provider; the last is a request that its dialect cannot carry. */
const UNSENT: ReadonlySet<string> = new Set([
  "upstream_unreachable",
  "upstream_timeout",
  "invalid_request",
]);

/** True for what the transport reports when the provider has not got the request. */
export function isUnsent(failure: HubError): boolean {
  return UNSENT.has(failure.code) || failure.details?.["isUnsent"] === true;
}

/** The failure of an answer whose status is an error. */
export async function refusalOf(
  response: UpstreamResponse,
  { clock, redact, wire, carried, headers, onPiece }:
    & Pick<AttemptOptions, "clock" | "redact" | "wire" | "carried">
    & {
      /** Fields of the answer that clients act on. */
      headers: Record<string, string>;
      onPiece(): void;
    },
): Promise<HubError> {
  return toUpstreamError({
    status: response.status,
    body: await readErrorText(response, onPiece),
    headers,
    nowMs: clock.now(),
    redact,
    wire: wire.name,
    conflictIsFinal: carried !== undefined,
  });
}

/** Throws the error that the stream has told, if any. `isShown`: something of the answer has gone to the client. */
export function assertNoError({ error }: TapFacts, wire: WireDialect, isShown: boolean): void {
  if (error !== null) throw toAnswerError(error, { wire: wire.name, isShown });
}

/** An answer without an end is no answer: throws `upstream_cut`. */
export function assertWhole({ finished, done }: TapFacts): void {
  if (finished || done) return;
  throw new HubError("upstream_cut", "The provider's stream ended before its answer did");
}

/** Throws `upstream_malformed` when a stream says too much before it has any content. */
export function assertHoldable(bytes: number): void {
  if (bytes <= MAX_HELD_BYTES) return;
  throw new HubError(
    "upstream_malformed",
    `The provider sent ${MAX_HELD_BYTES} bytes without any content`,
  );
}

/** The failure of a provider that was asked for a stream and answers with one JSON value. */
export function oneValueForStream(text: string, redact: Redact): HubError {
  return new HubError(
    "upstream_malformed",
    "The provider answered a stream with one JSON value",
    { details: { upstreamBody: showProviderText(text, { redact, maxLength: 4000 }) } },
  );
}
