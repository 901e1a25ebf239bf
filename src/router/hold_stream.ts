import { joinBytes } from "../core/join_bytes.ts";
import { readErrorText } from "../providers/read_whole.ts";
import type { UpstreamResponse } from "../providers/transport.ts";
import type { TapFacts } from "../wire/sse_tap.ts";
import type { AttemptOptions } from "./attempt_options.ts";
import {
  assertHoldable,
  assertNoError,
  assertWhole,
  oneValueForStream,
} from "./attempt_verdicts.ts";

/** Reads a stream up to its first content, and gives what may be shown. Throws what makes it no answer. */
export async function holdStream(
  response: UpstreamResponse,
  { facts, wire, redact, tapped, onPiece }: Pick<AttemptOptions, "wire" | "redact"> & {
    facts: Readonly<TapFacts>;
    /** The frames of a read that may be shown. */
    tapped(chunk: Uint8Array): Uint8Array;
    onPiece(): void;
  },
): Promise<Uint8Array> {
  if (response.header("content-type")?.includes("json")) {
    throw oneValueForStream(await readErrorText(response, onPiece), redact);
  }
  const held: Uint8Array[] = [];
  let heldBytes = 0;
  for (;;) {
    const chunk = await response.read();
    if (chunk === null) {
      assertWhole(facts);
      break;
    }
    const frames = tapped(chunk);
    if (frames.length > 0) held.push(frames);
    if (facts.content) break;
    assertNoError(facts, wire, false);
    assertHoldable(heldBytes += frames.length);
  }
  return joinBytes(held);
}
