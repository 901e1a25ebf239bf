import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import type { ApiContext, SpanSink } from "../../src/telemetry/tracing.ts";
import { type HttpMcpServer, startHttpMcpServer } from "../mcp/http_server.ts";
import { scripted } from "../mcp/rig.ts";
import { startTestPostgres } from "./postgres.ts";
import { createRawLog } from "./providers_rig.ts";
import { type ScriptedUpstream, startScriptedUpstream } from "./scripted_upstream.ts";
import { startTestHub, type TestHub } from "./test_hub.ts";

/** Key of the scripted provider. */
export const PROVIDER_KEY = "sk-provider-canary-0001";

/** Two hubs on one database, and MCP servers on all transports that write down what comes to them. */
export interface RecorderRig {
  first: TestHub & { close(): Promise<void> };
  second: TestHub & { close(): Promise<void> };
  upstream: ScriptedUpstream;
  recorder: HttpMcpServer;
  /** Answers of the hubs. */
  said: string[];
  /** Each text in which nothing secret may stand, by its place. */
  places(): Promise<Record<string, string>>;
}

/** Servers `http`, `sse`, `ws` and `prog`, whose tools are `good`, or `show` of the program. */
export async function withRecorder(
  body: (rig: RecorderRig) => Promise<void>,
  more: JsonObject = {},
): Promise<void> {
  const postgres = await startTestPostgres({ migrated: false });
  const dataDir = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-hub-" });
  const upstream = await startScriptedUpstream();
  const recorder = startHttpMcpServer();
  recorder.echoes = true;
  const raw = createRawLog();
  const spans: string[] = [];
  const config = {
    providers: { one: { baseUrl: upstream.url, apiKey: PROVIDER_KEY } },
    defaultModel: "one/m",
    agents: {
      default: { tools: ["*__*"] },
      asks: { tools: ["*__*"], approvals: { ask: ["http__*"] } },
    },
    mcpServers: {
      http: { url: recorder.url, headers: { "x-own": "configured" } },
      sse: { url: `${recorder.url}/sse`, transport: "sse" },
      ws: { url: `${recorder.url.replace("http", "ws")}/ws` },
      prog: scripted({ tools: [{ name: "show", inputSchema: { type: "object" } }] }, {
        env: {
          NO_COLOR: "1",
          DENO_NO_UPDATE_CHECK: "1",
          DENO_DIR: Deno.env.get("DENO_DIR") ?? dataDir,
        },
      }),
    },
    ...more,
  };
  const options = { databaseUrl: postgres.url, dataDir, log: raw.log, spans: spanSink(spans) };
  const first = await startTestHub(config, options);
  const second = await startTestHub(config, { ...options, key: first.key });
  const said: string[] = [];
  try {
    await first.hub.mcp.settled(60_000);
    await body({
      first,
      second,
      upstream,
      recorder,
      said,
      async places() {
        const { db } = second.hub.start;
        const tables = await db.within(db.read<{ name: string }[]>`
          select relname as name from pg_class
          where relnamespace = 'hub'::regnamespace and relkind in ('r', 'p')`);
        assert.ok(tables.length > 20);
        const rows = [];
        for (const { name } of tables) {
          const all = await db.within(db.read.unsafe(`select t::text from hub.${name} t`));
          rows.push(`${name} ${JSON.stringify(all)}`);
        }
        const metrics = await Promise.all(
          [first, second].map(async (hub) => await (await hub.call("/metrics")).text()),
        );
        return {
          logs: raw.lines.join("\n"),
          spans: spans.join("\n"),
          answers: said.join("\n"),
          rows: rows.join("\n"),
          metrics: metrics.join("\n"),
          prompts: JSON.stringify(upstream.requests),
        };
      },
    });
  } finally {
    await first.close();
    await second.close();
    await upstream.stop();
    await recorder.stop();
    await postgres.stop();
    await Deno.remove(dataDir, { recursive: true });
  }
}

function spanSink(written: string[]): SpanSink {
  const root: ApiContext = { setValue: () => root };
  let count = 0;
  const write = (...all: unknown[]) => void written.push(JSON.stringify(all));
  return {
    root,
    tracer: {
      startSpan(name, options) {
        write(name, options);
        const spanId = (++count).toString(16).padStart(16, "0");
        return {
          spanContext: () => ({ traceId: "1".padStart(32, "0"), spanId, traceFlags: 1 }),
          setAttributes: (attributes) => write(attributes),
          setStatus: (status) => write(status),
          end() {},
        };
      },
    },
  };
}
