import type { Clock } from "../core/clock.ts";
import type { HubEvent } from "../core/event.ts";

/**
 * Appends one JSON line for each model call (`type: "llm"`) and each tool call (`type: "tool"`) of a run: latency in
 * milliseconds, characters in and out, tokens, cost in millionths of a US dollar.
 */
export class Accounting {
  readonly #path: string;
  readonly #clock: Clock;
  readonly #tools = new Map<string, { toolName: string; charsIn: number; startedMs: number }>();
  #stepStartedMs = 0;
  #charsOut = 0;

  constructor(path: string, clock: Clock) {
    this.#path = path;
    this.#clock = clock;
  }

  take(event: HubEvent): void {
    const now = this.#clock.monotonic();
    switch (event.type) {
      case "step-start":
        this.#stepStartedMs = now;
        this.#charsOut = 0;
        return;
      case "text-delta":
      case "reasoning-delta":
        this.#charsOut += event.delta.length;
        return;
      case "tool-input-delta":
        this.#charsOut += event.inputTextDelta.length;
        return;
      case "step-finish":
        return this.#write({
          type: "llm",
          step: event.step,
          finishReason: event.finishReason,
          latencyMs: Math.round(now - this.#stepStartedMs),
          charactersOut: this.#charsOut,
          ...event.usage,
        });
      case "tool-input-available":
        this.#tools.set(event.toolCallId, {
          toolName: event.toolName,
          charsIn: JSON.stringify(event.input).length,
          startedMs: now,
        });
        return;
      case "tool-output-available":
        if (event.preliminary === true) return;
        return this.#endTool(event.toolCallId, {
          status: "ok",
          charactersOut: textLength(event.output),
        });
      case "tool-output-error":
      case "tool-output-denied":
        return this.#endTool(event.toolCallId, {
          status: "failed",
          charactersOut: event.errorText.length,
        });
      case "finish":
        return this.#write({
          type: "run",
          finishReason: event.finishReason,
          costMicros: event.costMicros,
          ...event.metadata,
          ...event.usage,
        });
      default:
    }
  }

  #endTool(toolCallId: string, end: { status: string; charactersOut: number }): void {
    const call = this.#tools.get(toolCallId);
    if (call === undefined) return;
    this.#tools.delete(toolCallId);
    this.#write({
      type: "tool",
      tool: call.toolName,
      status: end.status,
      latencyMs: Math.round(this.#clock.monotonic() - call.startedMs),
      charactersIn: call.charsIn,
      charactersOut: end.charactersOut,
    });
  }

  #write(entry: Record<string, unknown>): void {
    const time = new Date(this.#clock.now()).toISOString();
    const line = `${JSON.stringify({ time, ...entry })}\n`;
    Deno.writeTextFileSync(this.#path, line, { append: true, create: true });
  }
}

function textLength(output: unknown): number {
  return typeof output === "string" ? output.length : JSON.stringify(output).length;
}
