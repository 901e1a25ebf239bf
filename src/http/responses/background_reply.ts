import { Aborter } from "../../core/abort.ts";
import { HubError } from "../../core/error.ts";
import { isJsonObject, type JsonObject } from "../../core/json.ts";
import { accessOf } from "../../core/ownership.ts";
import type { AskedResponse } from "../../store/responses.ts";
import { hideEncrypted, withoutEncrypted } from "../../wire/openai_responses/response_writer.ts";
import { toFrame } from "../../wire/translated_events.ts";
import type { ByteSource } from "../byte_source.ts";
import type { Call } from "../call.ts";
import { bytesReply, type Reply } from "../reply.ts";
import { sseReply } from "../sse_response.ts";
import type { ResponsePlan } from "./response_plan.ts";
import type { ResponsesOptions } from "./responses_options.ts";

const encoder = new TextEncoder();

/** The answer to whoever asked for a background response: its place in the queue, or its events. */
export function backgroundReply(
  call: Call,
  { plan, queued, options, headers = {} }: {
    plan: ResponsePlan;
    queued: Uint8Array;
    options: ResponsesOptions;
    headers?: Readonly<Record<string, string>>;
  },
): Reply {
  const leftOut = plan.translated?.tools.leftOut ?? [];
  const all = {
    ...headers,
    ...(leftOut.length === 0 ? {} : { "x-loophub-left-out": leftOut.join(", ") }),
  };
  if (!plan.scan.stream) {
    return bytesReply(queued, { contentType: "application/json", headers: all });
  }
  // Under an idempotency key it may be the response that an earlier request began.
  const responseId = String(JSON.parse(new TextDecoder().decode(queued)).id);
  const showEncrypted = plan.translated?.settings.showEncrypted === true;
  return followReply(call, {
    key: { ...accessOf(call.principal), responseId },
    after: -1,
    showEncrypted,
    options,
    headers: all,
  });
}

/** The events of a background response behind the one of this number, as a stream. */
export function followReply(
  call: Call,
  { key, after, showEncrypted, options, headers = {} }: {
    key: AskedResponse;
    after: number;
    showEncrypted: boolean;
    options: Pick<ResponsesOptions, "background" | "keepaliveMs">;
    headers?: Readonly<Record<string, string>>;
  },
): Reply {
  const aborter = new Aborter();
  const events = options.background.follow(key, after, aborter);
  const source: ByteSource = {
    async pull() {
      const next = await events.next();
      if (next.done === true) return null;
      const shown = showEncrypted ? next.value : next.value.map(hide);
      return encoder.encode(shown.map(toFrame).join(""));
    },
    cancel() {
      aborter.abort(new HubError("client_closed", "The client left"));
      events.return().catch(() => {});
    },
  };
  return sseReply(source, { clock: call.clock, pingMs: options.keepaliveMs, headers });
}

function hide(event: JsonObject): JsonObject {
  const { item, response } = event;
  if (isJsonObject(item)) return { ...event, item: hideEncrypted(item) };
  return isJsonObject(response) ? { ...event, response: withoutEncrypted(response) } : event;
}
