import { VERSION } from "../core/version.ts";
import type { SpanSink } from "../telemetry/tracing.ts";

/** Where the runtime puts what OpenTelemetry's own package would look for; `trace` is there when it exports traces. */
const REGISTERED = Symbol.for("opentelemetry.js.api.1");

/** The runtime's exporter of traces; null unless it was started with `OTEL_DENO=true`. */
export function runtimeSpans(): SpanSink | null {
  const registered: unknown = Reflect.get(globalThis, REGISTERED);
  if (typeof registered !== "object" || registered === null || !("trace" in registered)) {
    return null;
  }
  const { tracerProvider, contextManager } = Deno.telemetry;
  return { tracer: tracerProvider.getTracer("loophub", VERSION), root: contextManager.active() };
}
