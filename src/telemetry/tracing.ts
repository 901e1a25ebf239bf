import { BoundedMap } from "../core/bounded_map.ts";
import { cutText } from "./loggable.ts";
import { type Origin, writeTraceparent } from "./traceparent.ts";

/** Facts of a span. Numbers are whole; what is null or not there is left out. */
export type SpanAttributes = Readonly<
  Record<string, string | number | boolean | readonly string[] | null | undefined>
>;

/** How a span begins. */
export interface SpanStart {
  kind: "internal" | "server" | "client";
  /** Milliseconds since the epoch. */
  startMs: number;
  attributes: SpanAttributes;
}

/** How a span ends. */
export interface SpanEnd {
  endMs: number;
  attributes?: SpanAttributes;
  /** What kind of failure it was, of a bounded number of kinds; null when it was none. */
  error?: string | null;
}

/** Something that took time, as a trace tells it. Whoever is not traced has none: null stands for it everywhere. */
export interface Span {
  /** Names it to another service. */
  readonly traceparent: string;
  readonly settings: TracingSettings;
  /** Begins a part of it. */
  child(name: string, start: SpanStart): Span | null;
  /** Ends it; later calls do nothing. */
  end(end: SpanEnd): void;
  /** A body as an attribute shows it: cut, and without secrets. Null unless the operator wants bodies. */
  body(text: () => string): string | null;
}

/** What the operator lets traces tell. */
export interface TracingSettings {
  bodies: boolean;
  propagate: boolean;
}

/** Begins traces. */
export interface Tracing {
  /** Null when this one is not sampled, by its origin or by the runtime. */
  start(name: string, start: SpanStart, origin?: Origin | null): Span | null;
}

/** A span of OpenTelemetry's API, as far as the hub uses it. */
export interface ApiSpan {
  spanContext(): { traceId: string; spanId: string; traceFlags: number };
  setAttributes(attributes: Record<string, unknown>): unknown;
  setStatus(status: { code: number }): unknown;
  end(endMs: number): void;
}

/** A context of OpenTelemetry's API. */
export interface ApiContext {
  setValue(key: symbol, value: unknown): ApiContext;
}

/** Where spans go. */
export interface SpanSink {
  tracer: {
    startSpan(
      name: string,
      options: { kind: number; startTime: number; attributes: Record<string, unknown> },
      context: ApiContext,
    ): ApiSpan;
  };
  /** A context with no span in it. */
  root: ApiContext;
}

/** What tracing is made of. */
export interface TracingOptions {
  sink: SpanSink;
  settings: TracingSettings;
  /** Takes secrets out of a text. */
  redact: (text: string) => string;
}

/** The key under which contexts hold their span. */
const SPAN_KEY = Symbol.for("OpenTelemetry Context Key SPAN");
const KINDS: Readonly<Record<SpanStart["kind"], number>> = { internal: 0, server: 1, client: 2 };
const STATUS_ERROR = 2;
const SAMPLED = 1;
const MAX_ATTRIBUTE = 256;
/** Texts whose clean form is kept. */
const MAX_KNOWN = 512;
/** Longest body, in characters. */
const MAX_BODY = 16 * 1024;

/** Makes what begins traces. Whatever becomes of the sink, nobody else notices. */
export function createTracing(given: TracingOptions): Tracing {
  const options = { ...given, clean: createClean(given.redact) };
  return {
    start(name, start, origin = null) {
      const { sink: { root } } = options;
      if (origin === null) return open(name, start, root, options);
      if ((origin.flags & SAMPLED) === 0) return null;
      const { traceId, spanId } = origin;
      const remote = { traceId, spanId, traceFlags: origin.flags, isRemote: true };
      return open(name, start, root.setValue(SPAN_KEY, { spanContext: () => remote }), options);
    },
  };
}

interface CleanedOptions extends TracingOptions {
  clean: (text: string) => string;
}

function open(
  name: string,
  { kind, startMs, attributes }: SpanStart,
  context: ApiContext,
  options: CleanedOptions,
): Span | null {
  try {
    const span = options.sink.tracer.startSpan(options.clean(name), {
      kind: KINDS[kind],
      startTime: startMs,
      attributes: toApi(attributes, options.clean),
    }, context);
    if ((span.spanContext().traceFlags & SAMPLED) === 0) return null;
    return new RecordedSpan(span, options);
  } catch {
    return null;
  }
}

class RecordedSpan implements Span {
  readonly #span: ApiSpan;
  readonly #options: CleanedOptions;
  #ended = false;

  constructor(span: ApiSpan, options: CleanedOptions) {
    this.#span = span;
    this.#options = options;
  }

  get traceparent(): string {
    const { traceId, spanId, traceFlags } = this.#span.spanContext();
    return writeTraceparent({ traceId, spanId, flags: traceFlags });
  }

  get settings(): TracingSettings {
    return this.#options.settings;
  }

  child(name: string, start: SpanStart): Span | null {
    const context = this.#options.sink.root.setValue(SPAN_KEY, this.#span);
    return open(name, start, context, this.#options);
  }

  end({ endMs, attributes = {}, error = null }: SpanEnd): void {
    if (this.#ended) return;
    this.#ended = true;
    const all = error === null ? attributes : { ...attributes, "error.type": error };
    try {
      this.#span.setAttributes(toApi(all, this.#options.clean));
      if (error !== null) this.#span.setStatus({ code: STATUS_ERROR });
      this.#span.end(endMs);
    } catch {
      // A trace that cannot be told is no trouble of whoever is traced.
    }
  }

  body(text: () => string): string | null {
    const { settings, redact } = this.#options;
    return settings.bodies ? redact(cutText(text(), redact, MAX_BODY)) : null;
  }
}

/** Cuts texts and takes secrets out of them. Most come again and again, and looking for secrets is what costs. */
function createClean(redact: (text: string) => string): (text: string) => string {
  const known = new BoundedMap<string, string>(MAX_KNOWN);
  return (text) => {
    if (text.length > MAX_ATTRIBUTE) return redact(cutText(text, redact, MAX_ATTRIBUTE));
    const found = known.get(text) ?? redact(text);
    known.set(text, found);
    return found;
  };
}

/** Whole numbers are integers there only as `bigint`. */
function toApi(
  attributes: SpanAttributes,
  clean: (text: string) => string,
): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined) continue;
    if (typeof value === "number") {
      if (Number.isFinite(value)) found[name] = BigInt(Math.round(value));
    } else if (typeof value === "boolean") found[name] = value;
    else if (typeof value === "string") found[name] = isBody(name) ? value : clean(value);
    else found[name] = value.map(clean);
  }
  return found;
}

/** Attributes that hold bodies, which `Span.body` has made fit. */
const BODIES: ReadonlySet<string> = new Set([
  "loophub.request.body",
  "loophub.response.body",
  "gen_ai.tool.call.arguments",
  "gen_ai.tool.call.result",
]);

function isBody(name: string): boolean {
  return BODIES.has(name);
}
