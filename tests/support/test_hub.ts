import { loadConfig, type LoadedConfig } from "../../src/config/load.ts";
import type { Clock } from "../../src/core/clock.ts";
import { toHubError } from "../../src/core/error.ts";
import { createIdSource } from "../../src/core/id.ts";
import type { Json, JsonObject } from "../../src/core/json.ts";
import { type Log, SILENT_LOG } from "../../src/core/log.ts";
import { createHub, type Hub } from "../../src/hub/create_hub.ts";
import type { ResolveName } from "../../src/providers/http1/guarded_connect.ts";
import type { SpanSink } from "../../src/telemetry/tracing.ts";
import { createRedactor } from "../../src/telemetry/redact.ts";
import { startTestPostgres, SWITCHES } from "./postgres.ts";
import { systemClock } from "./system_clock.ts";
import { createHeldFetch } from "./held_fetch.ts";

/** A real hub on a free port and a database of its own. */
export interface TestHub {
  /** Base URL without a slash at its end. */
  url: string;
  key: string;
  hub: Hub;
  databaseUrl: string;
  /** `fetch` with the key; a body is sent as JSON. */
  call(
    path: string,
    options?: {
      method?: string;
      body?: Json;
      headers?: Record<string, string>;
      signal?: AbortSignal;
    },
  ): Promise<Response>;
}

/** The hub's configuration file as a test writes it. */
export type TestConfig = JsonObject;

const randomBytes = (length: number) => crypto.getRandomValues(new Uint8Array(length));

/** Loads a configuration as the hub's own is, for a test that has the hub take over another one. */
export async function loadTestConfig(
  config: TestConfig,
  options: { databaseUrl: string; dataDir: string },
): Promise<LoadedConfig> {
  const text = JSON.stringify({
    ...config,
    server: {
      port: 0,
      keepaliveMs: 1000,
      shutdownGraceMs: 0,
      ...config["server"] as JsonObject | undefined,
    },
    database: {
      ...SWITCHES,
      ...config["database"] as JsonObject | undefined,
      url: options.databaseUrl,
      dataDir: options.dataDir,
    },
  });
  return await loadConfig({
    path: "/test/loophub.json",
    cwd: "/test",
    env: () => undefined,
    readText: (path) =>
      path === "/test/loophub.json"
        ? Promise.resolve(text)
        : Deno.readTextFile(path).catch(() => null),
  });
}

/** Starts a hub with this configuration on an existing database. */
export async function startTestHub(
  config: TestConfig,
  options: {
    databaseUrl: string;
    dataDir: string;
    key?: string;
    log?: Log;
    clock?: Clock;
    resolveName?: ResolveName;
    spans?: SpanSink;
  },
): Promise<TestHub & { close(): Promise<void> }> {
  const loaded = await loadTestConfig(config, options);
  const redactor = createRedactor({ secrets: loaded.secrets });
  const { clock = systemClock, resolveName, spans = null } = options;
  const hub = await createHub({
    loaded,
    clock,
    ids: createIdSource(clock.now, randomBytes),
    random: Math.random,
    randomBytes,
    log: options.log ?? SILENT_LOG,
    env: () => undefined,
    addSecret: redactor.add,
    spans,
    redact: redactor.redact,
    ...(resolveName === undefined ? {} : { resolveName }),
  });
  const server = hub.listen();
  const key = options.key ?? await firstKey(hub);
  const heldFetch = createHeldFetch();
  return {
    url: server.url,
    key,
    hub,
    databaseUrl: options.databaseUrl,
    call: (path, { method, body, headers, signal } = {}) =>
      heldFetch(server.url + path, {
        method: method ?? (body === undefined ? "GET" : "POST"),
        headers: {
          authorization: `Bearer ${key}`,
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        ...(signal === undefined ? {} : { signal }),
      }),
    close: async () => void await hub.close(),
  };
}

/** The first key of a hub whose deadline may be shorter than a busy machine needs to connect. */
async function firstKey(hub: Hub): Promise<string> {
  return await eventually(async () => {
    try {
      return await hub.makeFirstKey() ?? "";
    } catch (error) {
      if (toHubError(error).code === "database_unavailable") return null;
      throw error;
    }
  });
}

/** Runs a body with a hub of this configuration, then stops everything. */
export async function withHub(
  config: TestConfig,
  body: (hub: TestHub & { dataDir: string; restart(): Promise<TestHub> }) => Promise<void>,
): Promise<void> {
  const postgres = await startTestPostgres({ migrated: false });
  const dataDir = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-hub-" });
  const options = { databaseUrl: postgres.url, dataDir };
  let running = await startTestHub(config, options);
  const { key } = running;
  try {
    await body({
      ...running,
      dataDir,
      async restart() {
        await running.close();
        running = await startTestHub(config, { ...options, key });
        return running;
      },
    });
  } finally {
    await running.close();
    await postgres.stop();
    await Deno.remove(dataDir, { recursive: true });
  }
}

/** Runs a body with one hub for each configuration, all on one database, then stops everything. */
export async function withReplicas(
  configs: readonly [TestConfig, TestConfig],
  body: (first: TestHub, second: TestHub) => Promise<void>,
): Promise<void> {
  await withHub(configs[0], async (first) => {
    const second = await startTestHub(configs[1], {
      databaseUrl: first.databaseUrl,
      dataDir: first.dataDir,
      key: first.key,
    });
    try {
      await body(first, second);
    } finally {
      await second.close();
    }
  });
}

/**
 * Measures until it took less than this once, so many `times` in a row. A busy machine makes slow what is quick, but
 * nothing quick that waits for a timer; a look that comes every so often may come at once, but not each time.
 */
export async function tookUnder(
  limitMs: number,
  measure: () => Promise<number>,
  times = 1,
): Promise<void> {
  const untilMs = performance.now() + 30_000;
  const took: number[] = [];
  let inRow = 0;
  do {
    const ms = await measure();
    inRow = ms < limitMs ? inRow + 1 : 0;
    if (inRow === times) return;
    took.push(Math.round(ms));
  } while (took.length < 5 * times || performance.now() < untilMs);
  throw new Error(`It took ${took.join(", ")} ms, and not less than ${limitMs}`);
}

/** Asks again until the answer is there; fails after half a minute, which only what never happens takes. */
export async function eventually<T>(
  ask: () => T | null | undefined | Promise<T | null | undefined>,
  limitMs = 30_000,
): Promise<T> {
  const untilMs = performance.now() + limitMs;
  for (;;) {
    const answer = await ask();
    if (answer !== null && answer !== undefined) return answer;
    if (performance.now() > untilMs) throw new Error(`It did not happen within ${limitMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
