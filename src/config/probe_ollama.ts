import { type Static, Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import type { Clock } from "../core/clock.ts";

/** What Ollama's `GET /api/tags` answers, as far as the hub reads it. */
export const OllamaTags = Type.Object({
  models: Type.Array(Type.Object({ name: Type.String({ minLength: 1 }) })),
});
export type OllamaTags = Static<typeof OllamaTags>;

/** Asks for the models of an Ollama at an origin such as `http://127.0.0.1:11434`; null when none answers in time. */
export type ProbeOllama = (origin: string) => Promise<OllamaTags | null>;

/** Longest time that looking for Ollama may take, in milliseconds. */
export const OLLAMA_PROBE_MS = 200;

const MAX_TAGS_BYTES = 1024 * 1024;

/** A probe that never rejects, follows no redirect and gives up after `timeoutMs`, the body included. */
export function createOllamaProbe(
  { fetch, clock, timeoutMs = OLLAMA_PROBE_MS }: {
    fetch: typeof globalThis.fetch;
    clock: Clock;
    timeoutMs?: number;
  },
): ProbeOllama {
  return async (origin) => {
    const controller = new AbortController();
    const timer = clock.setTimer(() => controller.abort(), timeoutMs);
    try {
      const response = await fetch(`${origin}/api/tags`, {
        signal: controller.signal,
        redirect: "error",
      });
      const text = response.ok ? await readBounded(response) : null;
      if (text === null) {
        await response.body?.cancel();
        return null;
      }
      const answer: unknown = JSON.parse(text);
      return Value.Check(OllamaTags, answer) ? answer : null;
    } catch {
      // Refused, timed out, not HTTP or not JSON: whatever listens there is no Ollama the hub can use.
      return null;
    } finally {
      clock.clearTimer(timer);
    }
  };
}

/** The text of an answer, or null when it is longer than any list of models. */
async function readBounded(response: Response): Promise<string | null> {
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.byteLength;
    if (bytes > MAX_TAGS_BYTES) return null;
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}
