import type { Json, JsonObject } from "../../src/core/json.ts";
import type { Log, LogFields } from "../../src/core/log.ts";
import { chatCompletion, chatError, type ScriptedUpstream } from "./scripted_upstream.ts";
import type { TestHub } from "./test_hub.ts";

/** A log whose lines are kept as they are, before anything is redacted. */
export function createRawLog(): { log: Log; lines: string[]; count(message: string): number } {
  const lines: string[] = [];
  const inspect = (fields: LogFields = {}) => Deno.inspect(fields, { depth: 20 });
  const write = (message: string, fields?: LogFields) =>
    void lines.push(`${message} ${inspect(fields)}`);
  const log: Log = {
    debug: write,
    info: write,
    warn: write,
    error: write,
    writes: () => true,
    with: () => log,
  };
  const count = (message: string) => lines.filter((line) => line.startsWith(message)).length;
  return { log, lines, count };
}

/** Calls the admin API, and keeps the text of every answer. */
export function createAdmin(hub: TestHub, seen: string[] = []) {
  return async (
    path: string,
    { token, ...options }: { method?: string; body?: Json; token?: string } = {},
  ): Promise<{ status: number; value: JsonObject }> => {
    const headers: Record<string, string> = token === undefined
      ? {}
      : { authorization: `Bearer ${token}` };
    const answer = await hub.call(`/v1/admin/${path}`, { ...options, headers });
    const text = await answer.text();
    seen.push(text);
    return { status: answer.status, value: text === "" ? {} : JSON.parse(text) as JsonObject };
  };
}

/** An upstream that takes these keys only, and says with each answer which one it was. */
export function takeKeys(upstream: ScriptedUpstream, ...keys: string[]): void {
  upstream.script((request) => {
    const key = request.header("authorization")?.replace("Bearer ", "") ?? "none";
    return keys.includes(key) ? chatCompletion({ text: `by ${key.slice(-6)}` }) : chatError(401);
  });
}

/** The status of a chat completion, and the text of a good one. */
export async function chat(hub: TestHub, model: string): Promise<string> {
  const answer = await hub.call("/v1/chat/completions", {
    body: { model, messages: [{ role: "user", content: "Hi" }] },
  });
  const value = await answer.json();
  return answer.status === 200 ? value.choices[0].message.content : `${answer.status}`;
}
