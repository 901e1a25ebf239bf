import { Aborter } from "../../core/abort.ts";
import { HubError } from "../../core/error.ts";
import { MAX_RESPONSE_BYTES } from "../../core/limits.ts";
import { readWhole } from "../../providers/read_whole.ts";
import type { Target } from "../../providers/target.ts";
import type { UpstreamMethod } from "../../providers/transport.ts";
import { redactFor } from "../../router/redact_target.ts";
import { scrubErrorText } from "../../wire/errors/scrub_frame.ts";
import { PASS_UNBILLED } from "../../wire/pass_wire.ts";
import type { Redact } from "../../wire/provider_text.ts";
import { SseTap } from "../../wire/sse_tap.ts";
import { toUpstreamError } from "../../wire/upstream_error.ts";
import type { Call } from "../call.ts";
import { bytesReply, type Reply } from "../reply.ts";
import { sseReply } from "../sse_response.ts";

/** A request about a response that its provider keeps. */
export interface Forwarding {
  target: Target;
  method: UpstreamMethod;
  responseId: string;
  /** What of the path comes behind the id. */
  suffix: string;
  redact: Redact;
}

const NO_USAGE_WANTED = { hideUsage: false, choices: 0 };

/** Asks the provider that keeps a response, and gives its answer as it is but for the words of errors. */
export async function forward(
  call: Call,
  { target, method, responseId, suffix, redact }: Forwarding,
): Promise<Reply> {
  const endpoint = target.endpoints.responses;
  if (endpoint === undefined) {
    throw new HubError("not_found", `The provider ${target.provider} keeps no responses any more`);
  }
  const { clock } = call;
  const redactOwn = redactFor(target, redact);
  const aborter = new Aborter();
  const leave = () => aborter.abort(new HubError("client_closed", "The client left"));
  call.signal.addEventListener("abort", leave, { once: true });
  const late = () => aborter.abort(new HubError("upstream_timeout", "The provider was too slow"));
  let timer = clock.setTimer(late, target.timeouts.firstTokenMs);
  const touch = (ms: number) => {
    clock.clearTimer(timer);
    timer = clock.setTimer(late, ms);
  };
  const end = () => {
    clock.clearTimer(timer);
    call.signal.removeEventListener("abort", leave);
  };
  try {
    const query = call.search === "" ? "" : `?${call.search}`;
    const response = await endpoint.send({
      method,
      url: `${endpoint.url}/${encodeURIComponent(responseId)}${suffix}${query}`,
      headers: [],
      fixedHeaders: target.fixedHeaders,
      body: method === "POST" ? new Uint8Array(0) : null,
      signal: aborter,
      connectTimeoutMs: target.timeouts.connectMs,
    });
    touch(target.timeouts.inactivityMs);
    const streams = (response.header("content-type") ?? "").startsWith("text/event-stream");
    if (streams && response.status === 200) {
      const tap = new SseTap(PASS_UNBILLED.createFrames({ ...NO_USAGE_WANTED, redact: redactOwn }));
      let isOver = false;
      return sseReply({
        async pull() {
          try {
            while (!isOver) {
              const bytes = await response.read();
              isOver = bytes === null;
              if (isOver) end();
              else touch(target.timeouts.inactivityMs);
              const frames = bytes === null ? tap.finish() : tap.push(bytes);
              if (frames.length > 0) return frames;
            }
            return null;
          } catch (error) {
            end();
            throw aborter.aborted ? aborter.reason : error;
          }
        },
        cancel() {
          end();
          response.cancel();
        },
      }, { clock, open: false });
    }
    const bytes = await readWhole(response, { maxBytes: MAX_RESPONSE_BYTES, onPiece() {} });
    end();
    if (response.status < 200 || response.status > 299) {
      throw toUpstreamError({
        status: response.status,
        body: new TextDecoder().decode(bytes),
        headers: {},
        nowMs: clock.now(),
        redact: redactOwn,
        wire: "responses",
      });
    }
    const shown = scrubErrorText(new TextDecoder().decode(bytes), { redact: redactOwn });
    return bytesReply(shown ?? bytes, {
      contentType: response.header("content-type") ?? "application/json",
    });
  } catch (error) {
    end();
    throw aborter.aborted ? aborter.reason : error;
  }
}
