import { eventually } from "./test_hub.ts";

/** A span as it came over OTLP, its attributes by name. */
export interface ReceivedSpan {
  scope: string;
  name: string;
  /** 1 internal, 2 server, 3 client. */
  kind: number;
  traceId: string;
  spanId: string;
  parentSpanId: string;
  attributes: Record<string, unknown>;
  /** 2 for an error. */
  status: number;
  startMs: number;
  endMs: number;
}

/** An OpenTelemetry collector that takes JSON over HTTP. */
export interface OtlpReceiver {
  /** What a process exports here with. */
  env: Record<string, string>;
  /** The hub's own spans, in order of arrival. */
  spans: ReceivedSpan[];
  /** Everything that came, as it came. */
  text(): string;
  /** The first span for which this holds. */
  find(fits: (span: ReceivedSpan) => boolean): Promise<ReceivedSpan>;
  stop(): Promise<void>;
}

interface WireValue {
  stringValue?: string;
  intValue?: string | number;
  doubleValue?: number;
  boolValue?: boolean;
  arrayValue?: { values: WireValue[] };
}

interface WireSpan extends Omit<ReceivedSpan, "attributes" | "status"> {
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: { key: string; value: WireValue }[];
  status?: { code?: number };
}

function valueOf(value: WireValue): unknown {
  if (value.arrayValue !== undefined) return value.arrayValue.values.map(valueOf);
  if (value.intValue !== undefined) return Number(value.intValue);
  return value.stringValue ?? value.doubleValue ?? value.boolValue ?? null;
}

/** Starts a receiver on a free port. */
export function startOtlpReceiver(): OtlpReceiver {
  const texts: string[] = [];
  const spans: ReceivedSpan[] = [];
  const take = (scope: string, span: WireSpan) =>
    spans.push({
      scope,
      name: span.name,
      kind: span.kind,
      traceId: span.traceId,
      spanId: span.spanId,
      parentSpanId: span.parentSpanId,
      attributes: Object.fromEntries(
        span.attributes.map(({ key, value }) => [key, valueOf(value)]),
      ),
      status: span.status?.code ?? 0,
      startMs: Number(span.startTimeUnixNano) / 1e6,
      endMs: Number(span.endTimeUnixNano) / 1e6,
    });
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const text = await request.text();
    texts.push(text);
    for (const { scopeSpans } of JSON.parse(text).resourceSpans ?? []) {
      for (const { scope, spans } of scopeSpans) {
        if (scope.name === "loophub") { for (const span of spans) take(scope.name, span); }
      }
    }
    return Response.json({});
  });
  return {
    env: {
      OTEL_DENO: "true",
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${server.addr.port}`,
      OTEL_BSP_SCHEDULE_DELAY: "50",
    },
    spans,
    text: () => texts.join("\n"),
    find: (fits) => eventually(() => spans.find(fits)),
    stop: () => server.shutdown(),
  };
}
