import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import type { HubEvent, SequencedEvent } from "../../src/core/event.ts";
import { type PostgresServer, withPostgresServer } from "../support/postgres_server.ts";
import {
  chatCompletion,
  chatFrames,
  type Frame,
  type Reply,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { startTcpProxy, type TcpProxy } from "../support/tcp_proxy.ts";
import { eventually, startTestHub, type TestHub } from "../support/test_hub.ts";

const DEADLINE_MS = 500;
const TEXT = Array.from({ length: 40 }, (_, at) => `word${at} `).join("");

interface Rig {
  server: PostgresServer;
  proxy: TcpProxy;
  hub: TestHub;
  upstream: ScriptedUpstream;
}

/** One way in which Postgres is away. */
interface Trouble {
  name: string;
  begin(rig: Rig): Promise<unknown>;
  end(rig: Rig): Promise<unknown> | void;
  /** What `/readyz` says meanwhile. */
  reason?: string;
}

const FULL_TABLES = ["sessions", "messages", "runs", "run_events", "usage"];

const TROUBLES: Trouble[] = [
  {
    name: "a fast restart",
    begin: ({ server }) => server.stop("fast"),
    end: ({ server }) => server.start(),
  },
  {
    name: "an immediate restart",
    begin: ({ server }) => server.stop("immediate"),
    end: ({ server }) => server.start(),
  },
  {
    name: "a Postgres that is frozen past all deadlines",
    begin: ({ server }) => server.freeze(),
    end: ({ server }) => server.thaw(),
  },
  {
    name: "half-open connections in a network that is gone",
    async begin({ proxy }) {
      await proxy.set("stall");
      proxy.forget();
    },
    end: ({ proxy }) => proxy.set("pass"),
  },
  {
    name: "connections that are refused",
    async begin({ proxy }) {
      await proxy.set("refuse");
      proxy.cut();
    },
    end: ({ proxy }) => proxy.set("pass"),
  },
  {
    name: "a Postgres that turned read-only",
    async begin({ server }) {
      await server.admin("alter system set default_transaction_read_only = on");
      await server.admin("select pg_reload_conf()");
    },
    async end({ server }) {
      await server.admin("alter system reset default_transaction_read_only");
      await server.admin("select pg_reload_conf()");
    },
    reason: "Postgres is read-only",
  },
  {
    // Postgres' own words and code; a real disk cannot be filled here without rights that a test should not want.
    name: "a disk that is full",
    async begin({ server }) {
      await server.admin(
        `create function public.no_room() returns trigger language plpgsql as
        $$ begin raise exception 'could not extend file: No space left on device'
          using errcode = '53100'; end $$;` +
          FULL_TABLES.map((table) =>
            `create trigger no_room before insert on hub.${table}
            for each row execute function public.no_room();`
          ).join("\n"),
      );
    },
    end: ({ server }) => server.admin("drop function public.no_room cascade"),
    reason: "Postgres has no room",
  },
];

const ask = (hub: TestHub) =>
  hub.call("/v1/chat/completions", {
    body: { model: "one/m", messages: [{ role: "user", content: "Hi" }] },
  });

const statusOf = async (answer: Promise<Response>) => {
  const { status, body } = await answer;
  await body?.cancel();
  return status;
};

async function newSession(hub: TestHub): Promise<string> {
  return (await (await hub.call("/v1/sessions", { body: {} })).json()).id;
}

const eventsOf = (text: string): SequencedEvent[] =>
  [...text.matchAll(/^id: (\d+)\ndata: (.*)\n\n/gm)].map(([, seq, data]) => ({
    seq: Number(seq),
    event: JSON.parse(data ?? "") as HubEvent,
  }));

/** Reads a stream as it comes. */
function reading(answer: Response) {
  const state = { text: "" };
  const done = (async () => {
    const decoder = new TextDecoder();
    for await (const bytes of answer.body ?? []) state.text += decoder.decode(bytes);
    return state.text;
  })();
  return { state, done };
}

/** Two steps of one run, the first of which waits in its middle; whole answers for all who do not stream. */
function script(upstream: ScriptedUpstream, gate: Promise<void>): void {
  let steps = 0;
  upstream.script((request): Reply => {
    const { stream } = request.json as { stream?: boolean };
    const usage = { promptTokens: 20, completionTokens: 4 };
    if (stream !== true) return chatCompletion({ text: "Hello", usage });
    const first = steps++ === 0;
    const offered = (request.json as { tools: { function: { name: string } }[] }).tools;
    const name = offered.find((tool) => tool.function.name.includes("calculate"))?.function.name;
    const toolCalls = [{ name: name ?? "", arguments: { expression: "6*7" } }];
    const frames: Frame[] = chatFrames({ text: TEXT, usage, ...(first ? { toolCalls } : {}) });
    if (first) frames.splice(20, 0, { wait: gate });
    return { headers: { "content-type": "text/event-stream" }, frames };
  });
}

async function usageRows({ server }: Rig): Promise<{ total: number; requests: number }> {
  const [row] = await server.admin<{ total: number; requests: number }>(
    "select count(*)::int as total, count(distinct request_id)::int as requests from hub.usage",
  );
  return row ?? assert.fail("no row");
}

/** A run under way and requests of all kinds while Postgres is away; afterwards everything is whole. */
async function through(trouble: Trouble, rig: Rig): Promise<void> {
  const { hub, upstream } = rig;
  const before = await usageRows(rig);
  const session = await newSession(hub);
  const other = await newSession(hub);
  const gate = Promise.withResolvers<void>();
  script(upstream, gate.promise);
  const answer = await hub.call(`/v1/sessions/${session}/messages`, { body: { text: "Go" } });
  const runId = answer.headers.get("x-loophub-run") ?? "";
  const { state, done } = reading(answer);
  await eventually(() => Promise.resolve(state.text.includes("word15") || null));

  await trouble.begin(rig);
  gate.resolve();
  const proxied = await Promise.all([1, 2, 3, 4, 5].map(() => statusOf(ask(hub))));
  assert.deepEqual(proxied, [200, 200, 200, 200, 200]);
  for (const path of ["/v1/sessions", `/v1/sessions/${other}/messages`]) {
    const body = path === "/v1/sessions" ? {} : { text: "Now?" };
    const refused = await hub.call(path, { body });
    assert.equal(refused.status, 503, path);
    assert.equal(refused.headers.get("retry-after"), "1");
    assert.equal((await refused.json()).error.code, "database_unavailable");
  }
  const ready = await hub.call("/readyz");
  assert.equal(ready.status, 503);
  assert.equal((await ready.json()).reason, trouble.reason ?? "Postgres does not answer");
  assert.equal(await statusOf(hub.call("/healthz")), 200);
  assert.ok(!state.text.includes('"type":"finish"'), "the run does not end while Postgres is away");

  await trouble.end(rig);
  await eventually(async () => (await statusOf(hub.call("/readyz"))) === 200 || null);
  assert.equal(await statusOf(hub.call("/v1/sessions", { body: {} })), 201);
  const seen = eventsOf(await done);
  assert.deepEqual(checkLog(seen), []);
  const last = seen.at(-1)?.event;
  assert.ok(last?.type === "finish" && last.finishReason === "stop");
  assert.equal(seen.filter(({ event }) => event.type === "finish").length, 1);
  assert.deepEqual(seen.map(({ seq }) => seq), seen.map((_, at) => at + 1));
  const said = seen.map(({ event }) => event.type === "text-delta" ? event.delta : "").join("");
  assert.equal(said, TEXT + TEXT);
  const replay = await hub.call(`/v1/runs/${runId}/stream`);
  assert.deepEqual(eventsOf(await replay.text()), seen);
  // Two steps and five proxied answers.
  const usage = await eventually(async () => {
    const now = await usageRows(rig);
    return now.total >= before.total + 7 ? now : null;
  });
  assert.equal(usage.total, before.total + 7);
  assert.equal(usage.requests, before.requests + 6);
}

Deno.test("a run, the proxy and the books come through whatever Postgres does", async (t) => {
  await withPostgresServer(async (server) => {
    const upstream = await startScriptedUpstream();
    const proxy = await startTcpProxy(server.url);
    const dataDir = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-trouble-hub-" });
    const hub = await startTestHub({
      providers: { one: { baseUrl: upstream.url } },
      defaultModel: "one/m",
      database: { statementTimeoutMs: DEADLINE_MS },
    }, { databaseUrl: proxy.through(server.url), dataDir });
    try {
      for (const trouble of TROUBLES) {
        await t.step(trouble.name, () => through(trouble, { server, proxy, hub, upstream }));
      }
    } finally {
      await hub.close();
      await proxy.stop();
      await upstream.stop();
      await Deno.remove(dataDir, { recursive: true });
    }
  });
});
