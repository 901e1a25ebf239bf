import type { Clock } from "../core/clock.ts";
import type { HubError } from "../core/error.ts";
import { joinBytes } from "../core/join_bytes.ts";
import type { Usage } from "../core/usage.ts";
import type { Target } from "../providers/target.ts";
import type { HeaderPairs } from "../providers/transport.ts";
import type { Span, SpanAttributes } from "../telemetry/tracing.ts";
import { type AnswerFacts, readAnswerFacts } from "../wire/answer_facts.ts";
import type { WireName } from "../wire/wire_dialect.ts";
import type { CallFacts } from "./usage_fact.ts";

/** The request that a try is made for. */
interface Asked {
  span?: Span | null;
  facts: CallFacts;
  stream: boolean;
}

/** What is sent. */
interface Sent {
  wire: { name: WireName };
  body: Uint8Array;
  subpath?: string;
}

/** A try that is over. */
interface Tried {
  readonly stream: boolean;
  readonly failure: HubError | null;
  readonly status: number | null;
  readonly firstTokenMs: number | null;
  readonly bytesOut: number;
  readonly answerFacts: AnswerFacts;
}

/** What a try came to. */
export interface AttemptEnd {
  usage: Usage | null;
  estimated: boolean;
  costMicros: number | null;
}

/** Bytes of an answer that are kept to be shown. */
const MAX_KEPT_BYTES = 64 * 1024;
const decoder = new TextDecoder();
/** Names of the conventions for what is asked, by the kind of its usage row; others go by that. */
const OPERATIONS: Readonly<Record<string, string>> = {
  proxy: "chat",
  run: "chat",
  completions: "text_completion",
};

/** One try as a trace tells it, by OpenTelemetry's conventions for generative AI. */
export class AttemptSpan {
  readonly #span: Span;
  readonly #clock: Clock;
  readonly #request: Uint8Array;
  readonly #keeps: boolean;
  readonly #shown: Uint8Array[] = [];
  #shownBytes = 0;

  private constructor(
    span: Span,
    { clock, request, stream }: { clock: Clock; request: Uint8Array; stream: boolean },
  ) {
    this.#span = span;
    this.#clock = clock;
    this.#request = request;
    // A whole answer comes in one piece, and says some facts in its midst.
    this.#keeps = span.settings.bodies || !stream;
  }

  /** Begins it; null where the request is not traced. */
  static start(
    { span: parent = null, facts, stream }: Asked,
    { target, prepared, number, clock }: {
      target: Target;
      prepared: Sent;
      /** Tries of this request before it. */
      number: number;
      clock: Clock;
    },
  ): AttemptSpan | null {
    if (parent === null) return null;
    const { subpath } = prepared;
    const operation = subpath?.replaceAll("/", "") ?? OPERATIONS[facts.kind] ?? facts.kind;
    const url = (target.endpoints[prepared.wire.name] ?? target.endpoints.chat).url;
    const span = parent.child(`${operation} ${target.model}`, {
      kind: "client",
      startMs: clock.now(),
      attributes: {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": target.quirks.traceName ?? target.provider,
        "gen_ai.request.model": target.model,
        "gen_ai.request.stream": stream,
        "gen_ai.conversation.id": facts.sessionId,
        ...serverOf(url),
        "loophub.provider": target.provider,
        "loophub.public_model": facts.publicModel,
        "loophub.request_id": facts.requestId,
        "loophub.attempt": number + 1,
        "loophub.provider_key": target.key?.number,
        "loophub.step": facts.step,
      },
    });
    return span === null ? null : new AttemptSpan(span, { clock, stream, request: prepared.body });
  }

  /** Fields of the request that name the span to the provider; none unless the operator wants that. */
  headers(others: HeaderPairs = []): HeaderPairs {
    if (!this.#span.settings.propagate) return others;
    return [...others, ["traceparent", this.#span.traceparent]];
  }

  /** Bytes that the client gets. */
  show(bytes: Uint8Array): void {
    if (!this.#keeps || this.#shownBytes > MAX_KEPT_BYTES) return;
    this.#shown.push(bytes);
    this.#shownBytes += bytes.length;
  }

  /** Ends it. What must be read for it is read once whoever waits for the answer has it. */
  end(attempt: Tried, end: AttemptEnd): void {
    const endMs = this.#clock.now();
    this.#clock.setTimer(() => this.#tell(attempt, { ...end, endMs }), 0);
  }

  #tell(attempt: Tried, end: AttemptEnd & { endMs: number }): void {
    const { failure, status, firstTokenMs } = attempt;
    const { usage, estimated, costMicros, endMs } = end;
    const [first] = this.#shown;
    const whole = attempt.stream || first === undefined ? null : readAnswerFacts(first);
    const { model, finishReasons }: AnswerFacts = whole ?? attempt.answerFacts;
    this.#span.end({
      endMs,
      error: failure?.code ?? null,
      attributes: {
        "gen_ai.response.model": model,
        "gen_ai.response.finish_reasons": finishReasons.length === 0 ? null : finishReasons,
        "http.response.status_code": status,
        ...usageOf(usage),
        "loophub.usage.estimated": estimated ? true : null,
        "loophub.cost_micros": costMicros,
        "loophub.first_token_ms": firstTokenMs,
        "loophub.request.bytes": this.#request.length,
        "loophub.response.bytes": attempt.bytesOut,
        "loophub.request.body": this.#span.body(() => beginningOf(this.#request)),
        "loophub.response.body": this.#span.body(() => this.#shownText()),
      },
    });
  }

  #shownText(): string {
    return beginningOf(joinBytes(this.#shown));
  }
}

/** As much of a text as a span shows, and more. */
function beginningOf(bytes: Uint8Array): string {
  return decoder.decode(bytes.subarray(0, MAX_KEPT_BYTES));
}

/** Token counts by the conventions. */
export function usageOf(usage: Usage | null): SpanAttributes {
  if (usage === null) return {};
  const { cachedTokens, cacheWriteTokens = 0, reasoningTokens } = usage;
  const orNone = (count: number) => count > 0 ? count : null;
  return {
    "gen_ai.usage.input_tokens": usage.promptTokens,
    "gen_ai.usage.output_tokens": usage.completionTokens,
    "gen_ai.usage.cache_read.input_tokens": orNone(cachedTokens),
    "gen_ai.usage.cache_creation.input_tokens": orNone(cacheWriteTokens),
    "gen_ai.usage.reasoning.output_tokens": orNone(reasoningTokens),
  };
}

const PORTS: Readonly<Record<string, number>> = { "http:": 80, "https:": 443 };

function serverOf(url: string): SpanAttributes {
  const { hostname, port, protocol } = new URL(url);
  return {
    "server.address": hostname,
    "server.port": port === "" ? PORTS[protocol] : Number(port),
  };
}
