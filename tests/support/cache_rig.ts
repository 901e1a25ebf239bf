import assert from "node:assert/strict";
import type { Json } from "../../src/core/json.ts";
import { type ScriptedUpstream, startScriptedUpstream } from "./scripted_upstream.ts";
import { eventually, type TestHub, withReplicas } from "./test_hub.ts";

export const CHAT = "/v1/chat/completions";

/** Two replicas and their upstream. */
export interface CacheRig {
  first: TestHub;
  second: TestHub;
  upstream: ScriptedUpstream;
  /** Both serve `one/m`. */
  ask(hub: TestHub, question: string, options?: AskOptions): Promise<Response>;
}

/** What differs from a request that asks for an hour. */
export interface AskOptions {
  /** Null sends no header. */
  cache?: string | null;
  headers?: Record<string, string>;
  body?: Record<string, Json>;
  path?: string;
  signal?: AbortSignal;
}

/** Runs a body with two replicas on one database, then stops everything. */
export async function withCacheRig(
  body: (rig: CacheRig) => Promise<void>,
  settings: Record<string, Json> = {},
): Promise<void> {
  const upstream = await startScriptedUpstream();
  const config = {
    providers: { one: { baseUrl: upstream.url, maxRetries: 0 } },
    defaultModel: "one/m",
    cache: { lookupTimeoutMs: 5000, ...settings },
  };
  try {
    await withReplicas([config, config], (first, second) => body({ first, second, upstream, ask }));
  } finally {
    await upstream.stop();
  }
}

/** A chat request. */
export function ask(
  hub: TestHub,
  question: string,
  { cache = "3600", headers = {}, body = {}, path = CHAT, signal }: AskOptions = {},
): Promise<Response> {
  return hub.call(path, {
    body: { model: "one/m", messages: [{ role: "user", content: question }], ...body },
    headers: { ...(cache === null ? {} : { "x-loophub-cache": cache }), ...headers },
    ...(signal === undefined ? {} : { signal }),
  });
}

/** What the hub says of the cache. */
export const outcomeOf = (answer: Response) => answer.headers.get("x-loophub-cache");

/** Waits until so many answers are kept. */
export async function kept(hub: TestHub, count: number): Promise<void> {
  const { db } = hub.hub.start;
  const rows = () => db.read`select 1 from hub.cached_answers`;
  await eventually(async () => (await rows()).length >= count ? true : null);
  assert.equal((await rows()).length, count);
}

/** The value of a series of the cache's counter. */
export async function counted(hub: TestHub, event: string): Promise<number> {
  const text = await (await hub.call("/metrics")).text();
  const line = new RegExp(
    `^loophub_response_cache_total\\{[^}]*event="${event}"[^}]*\\} (\\d+)$`,
    "m",
  );
  return Number(line.exec(text)?.[1] ?? 0);
}

/** The frames of a stream without comments. */
export const framesOf = (text: string) => text.replaceAll(/^:.*\n\n/gm, "");
