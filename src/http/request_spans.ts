import type { Clock } from "../core/clock.ts";
import type { Span, Tracing } from "../telemetry/tracing.ts";
import { parseTraceparent } from "../telemetry/traceparent.ts";
import type { CallEnd, CallState } from "./call.ts";
import type { HubRequest } from "./hub_request.ts";
import type { Route } from "./route.ts";

interface Ended extends CallEnd {
  keyId: string | null;
  errorCode: string | null;
}

/** Requests as traces tell them: all but those of public routes, which monitors ask all the time. */
export class RequestSpans {
  readonly #tracing: Tracing;
  readonly #clock: Clock;

  constructor(tracing: Tracing, clock: Clock) {
    this.#tracing = tracing;
    this.#clock = clock;
  }

  /** Begins the span of a request, as a part of the caller's trace if it names one. */
  begin(call: CallState, { auth, path }: Route): void {
    if (auth !== "public") call.span = this.#start(call, path);
  }

  /** Ends it; a request that found no route has none before. */
  end(call: CallState, route: Route | null, facts: Ended): void {
    const span = route === null ? this.#start(call, null) : call.span;
    if (span === null) return;
    const { status, errorCode, outcome } = facts;
    span.end({
      endMs: this.#clock.now(),
      // By the conventions a refusal is no failure of the server.
      error: status >= 500 || outcome === "cut" ? errorCode ?? String(status) : null,
      attributes: {
        "http.response.status_code": status,
        "loophub.outcome": outcome,
        "loophub.error_code": errorCode,
        "loophub.key_id": facts.keyId,
        "loophub.overhead_us": facts.overheadMs * 1000,
        "http.response.body.size": facts.bytesOut,
      },
    });
  }

  #start({ request, requestId, receivedMs }: CallState, route: string | null): Span | null {
    const { method } = request;
    const attributes = {
      "http.request.method": method,
      "http.route": route,
      "loophub.request_id": requestId,
    };
    const startMs = this.#clock.now() - (this.#clock.monotonic() - receivedMs);
    const name = route === null ? method : `${method} ${route}`;
    return this.#tracing.start(name, { kind: "server", startMs, attributes }, originOf(request));
  }
}

/** A caller that names two spans names none. */
function originOf(request: HubRequest) {
  if (request.isRepeated("traceparent")) return null;
  return parseTraceparent(request.header("traceparent"));
}
