import assert from "node:assert/strict";
import { startHubProcess } from "../support/hub_process.ts";
import {
  type OtlpReceiver,
  type ReceivedSpan,
  startOtlpReceiver,
} from "../support/otlp_receiver.ts";
import { startTestPostgres } from "../support/postgres.ts";
import {
  chatCompletion,
  chatError,
  chatStream,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually } from "../support/test_hub.ts";

const UPSTREAM_KEY = "canary-of-the-provider-1";
const HEADER = "canary-of-a-header-2";
const ASKED = "canary-of-a-question-3";
const ANSWERED = "canary-of-an-answer-4";
const TRACE = "0af7651916cd43dd8448eb211c80319c";
const CALLER = "b7ad6b7169203331";
const INTERNAL = 1;
const SERVER = 2;
const CLIENT = 3;

interface Rig {
  upstream: ScriptedUpstream;
  receiver: OtlpReceiver;
  key: string;
  post(path: string, body: object, headers?: Record<string, string>): Promise<string>;
}

/** A hub as a process of its own that exports to a receiver, and what it has said once it has ended. */
async function traced(
  { config = {}, env = {}, end = "SIGINT" }: {
    config?: object;
    env?: Record<string, string>;
    end?: Deno.Signal;
  },
  body: (rig: Rig) => Promise<void>,
): Promise<{ receiver: OtlpReceiver; key: string; err: string }> {
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-traces-" });
  await Deno.chmod(folder, 0o755);
  const upstream = await startScriptedUpstream();
  const receiver = startOtlpReceiver();
  const postgres = await startTestPostgres({ migrated: false });
  const pricing = { inputPerMillion: 2, outputPerMillion: 10 };
  await Deno.writeTextFile(
    `${folder}/loophub.json`,
    JSON.stringify({
      providers: {
        up: {
          kind: "openai",
          baseUrl: upstream.url,
          apiKey: "${UP_KEY}",
          headers: { "x-team": "${TEAM}" },
          models: { m: { pricing } },
          maxRetries: 1,
        },
      },
      defaultModel: "up/m",
      agents: { default: { tools: ["hub.*"] } },
      ...config,
    }),
  );
  try {
    const secrets = { UP_KEY: UPSTREAM_KEY, TEAM: HEADER };
    const hub = await startHubProcess(folder, {
      ...secrets,
      ...receiver.env,
      ...env,
      DATABASE_URL: postgres.url,
    });
    const key = await eventually(() => hub.key() ?? undefined);
    try {
      await body({
        upstream,
        receiver,
        key,
        async post(path, body, headers = {}) {
          const answer = await fetch(hub.url + path, {
            method: "POST",
            headers: {
              authorization: `Bearer ${key}`,
              "content-type": "application/json",
              ...headers,
            },
            body: JSON.stringify(body),
          });
          return await answer.text();
        },
      });
    } finally {
      await hub.end(end);
    }
    return { receiver, key, err: hub.err() };
  } finally {
    await upstream.stop();
    await receiver.stop();
    await postgres.stop();
    await Deno.remove(folder, { recursive: true });
  }
}

const MESSAGES = [{ role: "user", content: `say ${ASKED}` }];
const usage = { promptTokens: 20, completionTokens: 9, totalTokens: 29, cachedTokens: 5 };
const childrenOf = (spans: readonly ReceivedSpan[], { spanId }: ReceivedSpan) =>
  spans.filter(({ parentSpanId }) => parentSpanId === spanId)
    .sort((a, b) => a.startMs - b.startMs);
const ofRequest = (requestId: string) => ({ kind, attributes }: ReceivedSpan) =>
  kind === SERVER && attributes["loophub.request_id"] === requestId;

Deno.test("a request, its tries, runs and their tools are spans, by the conventions for generative AI", async () => {
  let upstreamSaw = "";
  const { receiver, key, err } = await traced({}, async ({ upstream, receiver, post }) => {
    const { spans } = receiver;
    upstream.script([
      chatError(500, { message: ANSWERED }),
      chatStream({ text: ANSWERED, usage, model: "m-2026" }),
      chatCompletion({ text: ANSWERED, usage, model: "m-2026" }),
      chatStream({
        toolCalls: [{ name: "hub_calculate", arguments: { expression: "6*7" } }],
        usage,
      }),
      chatStream({ text: ANSWERED, usage }),
      chatError(400, { message: ANSWERED }),
    ]);
    const caller = { traceparent: `00-${TRACE}-${CALLER}-01` };
    await post("/v1/chat/completions", { model: "up/m", stream: true, messages: MESSAGES }, {
      ...caller,
      "x-request-id": "streamed",
    });
    const streamed = await receiver.find(ofRequest("streamed"));
    assert.equal(streamed.name, "POST /v1/chat/completions");
    assert.equal(streamed.traceId, TRACE);
    assert.equal(streamed.parentSpanId, CALLER);
    assert.equal(streamed.status, 0);
    assert.equal(streamed.attributes["http.response.status_code"], 200);
    assert.equal(streamed.attributes["http.route"], "/v1/chat/completions");
    const tries = await eventually(() => {
      const found = childrenOf(spans, streamed);
      return found.length === 2 ? found : null;
    });
    const [failed, answered] = tries;
    assert.ok(failed !== undefined && answered !== undefined);
    assert.equal(failed.attributes["error.type"], "upstream_error");
    assert.equal(failed.attributes["http.response.status_code"], 500);
    assert.equal(failed.status, 2);
    assert.equal(answered.name, "chat m");
    assert.equal(answered.kind, CLIENT);
    assert.equal(answered.traceId, TRACE);
    assert.ok(answered.startMs >= streamed.startMs && answered.endMs <= streamed.endMs + 1);
    const { attributes: { "loophub.first_token_ms": firstMs, ...others } } = answered;
    assert.equal(typeof firstMs, "number");
    assert.ok(Number(others["loophub.response.bytes"]) > 100);
    delete others["loophub.response.bytes"];
    assert.ok(Number(others["loophub.request.bytes"]) > 50);
    delete others["loophub.request.bytes"];
    assert.deepEqual(others, {
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "openai",
      "gen_ai.request.model": "m",
      "gen_ai.request.stream": true,
      "gen_ai.response.model": "m-2026",
      "gen_ai.response.finish_reasons": ["stop"],
      "gen_ai.usage.input_tokens": 20,
      "gen_ai.usage.output_tokens": 9,
      "gen_ai.usage.cache_read.input_tokens": 5,
      "http.response.status_code": 200,
      "server.address": "127.0.0.1",
      "server.port": upstream.port,
      "loophub.provider": "up",
      "loophub.public_model": "up/m",
      "loophub.request_id": "streamed",
      "loophub.attempt": 2,
      "loophub.cost_micros": 130,
    });

    await post("/v1/chat/completions", { model: "up/m", messages: MESSAGES }, {
      "x-request-id": "whole",
    });
    const whole = await receiver.find(ofRequest("whole"));
    assert.notEqual(whole.traceId, TRACE);
    assert.equal(whole.parentSpanId, "");
    const [given] = await eventually(() => {
      const found = childrenOf(spans, whole);
      return found.length === 1 ? found : null;
    });
    assert.equal(given?.attributes["gen_ai.response.model"], "m-2026");
    assert.deepEqual(given?.attributes["gen_ai.response.finish_reasons"], ["stop"]);
    assert.equal(given?.attributes["gen_ai.usage.output_tokens"], 9);

    const session = JSON.parse(await post("/v1/sessions", {}));
    await post(`/v1/sessions/${session.id}/messages`, { text: ASKED }, { "x-request-id": "run" });
    const asked = await receiver.find(ofRequest("run"));
    const run = await receiver.find(({ name }) => name === "invoke_agent default");
    assert.equal(run.parentSpanId, asked.spanId);
    assert.equal(run.kind, INTERNAL);
    assert.equal(run.attributes["gen_ai.conversation.id"], session.id);
    assert.equal(run.attributes["gen_ai.usage.input_tokens"], 40);
    assert.deepEqual(run.attributes["gen_ai.response.finish_reasons"], ["stop"]);
    const parts = await eventually(() => {
      const found = childrenOf(spans, run);
      return found.length === 3 ? found : null;
    });
    assert.deepEqual(parts.map(({ name }) => name), [
      "chat m",
      "execute_tool hub.calculate",
      "chat m",
    ]);
    const [calls, tool] = parts;
    assert.deepEqual(calls?.attributes["gen_ai.response.finish_reasons"], ["tool_calls"]);
    assert.equal(calls?.attributes["gen_ai.conversation.id"], session.id);
    assert.equal(tool?.attributes["gen_ai.operation.name"], "execute_tool");
    assert.equal(tool?.attributes["gen_ai.tool.name"], "hub.calculate");
    assert.match(String(tool?.attributes["gen_ai.tool.call.id"]), /^call_/);
    assert.equal(tool?.status, 0);

    await post("/v1/chat/completions", { model: "up/m", messages: MESSAGES }, {
      traceparent: "00-00000000000000000000000000000000-0000000000000000-01",
      "x-request-id": "refused",
    });
    const refused = await receiver.find(ofRequest("refused"));
    assert.equal(refused.attributes["loophub.error_code"], "upstream_rejected");
    assert.equal(refused.status, 0, "a refusal is none of the server's failures");
    await post("/no/such/path", {}, { "x-request-id": "nowhere" });
    const nowhere = await receiver.find(ofRequest("nowhere"));
    assert.equal(nowhere.name, "POST");

    upstream.script(() => chatError(400, { message: ANSWERED }));
    for (
      const [path, body, name] of [
        ["/v1/embeddings", { input: ASKED }, "embeddings m"],
        ["/v1/completions", { prompt: ASKED }, "text_completion m"],
        ["/v1/moderations", { input: ASKED }, "moderations m"],
      ] as const
    ) {
      await post(path, { model: "up/m", ...body }, { "x-request-id": name.replace(" ", "-") });
      const request = await receiver.find(ofRequest(name.replace(" ", "-")));
      const tried = await receiver.find(({ parentSpanId }) => parentSpanId === request.spanId);
      assert.equal(tried.name, name);
    }

    // A caller whose trace is not sampled has none here.
    const count = spans.length;
    upstream.script(() => chatCompletion({ text: ANSWERED, usage }));
    await post("/v1/chat/completions", { model: "up/m", messages: MESSAGES }, {
      traceparent: `00-${TRACE}-${CALLER}-00`,
    });
    await post("/v1/sessions", {}, { "x-request-id": "last" });
    await receiver.find(ofRequest("last"));
    assert.deepEqual(spans.slice(count).map(({ name }) => name), ["POST /v1/sessions"]);
    upstreamSaw = JSON.stringify(upstream.requests.map(({ headers }) => headers));
  });
  assert.ok(upstreamSaw.includes(UPSTREAM_KEY));
  assert.ok(!upstreamSaw.includes("traceparent"), "providers are told of traces");
  for (const secret of [UPSTREAM_KEY, HEADER, ASKED, ANSWERED, key, key.slice(3)]) {
    assert.ok(!receiver.text().includes(secret), `${secret} is in what was exported`);
  }
  assert.doesNotMatch(receiver.text(), /authorization/i);
  assert.ok(!err.includes("Uncaught"));
});

Deno.test("bodies and names for providers are told when the operator wants it, and secrets never", async () => {
  const config = { tracing: { bodies: true, propagate: true } };
  const { receiver, key } = await traced({ config }, async ({ upstream, receiver, key, post }) => {
    upstream.script([
      chatStream({ text: `${ANSWERED} ${UPSTREAM_KEY} of ${HEADER}`, usage }),
      chatStream({
        toolCalls: [{ name: "hub_calculate", arguments: { expression: "6*7" } }],
        usage,
      }),
      chatStream({ text: ANSWERED, usage }),
    ]);
    const messages = [{ role: "user", content: `${ASKED} {"api_key":"${HEADER}"} Bearer ${key}` }];
    const long = "x".repeat(40_000);
    await post("/v1/chat/completions", { model: "up/m", stream: true, messages, user: long }, {
      traceparent: `00-${TRACE}-${CALLER}-01`,
    });
    const tried = await receiver.find(({ name }) => name === "chat m");
    assert.equal(tried.traceId, TRACE);
    assert.equal(
      upstream.requests[0]?.header("traceparent"),
      `00-${TRACE}-${tried.spanId}-01`,
    );
    const request = String(tried.attributes["loophub.request.body"]);
    assert.ok(request.includes(ASKED) && request.includes("[redacted]"));
    assert.ok(request.length < 17_000 && request.includes("[cut: "));
    assert.ok(String(tried.attributes["loophub.response.body"]).includes(ANSWERED));
    const session = JSON.parse(await post("/v1/sessions", {}));
    await post(`/v1/sessions/${session.id}/messages`, { text: ASKED });
    const tool = await receiver.find(({ name }) => name === "execute_tool hub.calculate");
    assert.equal(tool.attributes["gen_ai.tool.call.arguments"], '{"expression":"6*7"}');
    assert.match(String(tool.attributes["gen_ai.tool.call.result"]), /42/);
  });
  assert.ok(receiver.text().includes(ASKED));
  for (const secret of [UPSTREAM_KEY, HEADER, key, key.slice(3)]) {
    assert.ok(!receiver.text().includes(secret), `${secret} is in what was exported`);
  }
});

Deno.test("nothing is exported unless the runtime is told to", async () => {
  const { receiver } = await traced({ env: { OTEL_DENO: "" } }, async ({ upstream, post }) => {
    upstream.script(() => chatCompletion({ text: ANSWERED, usage }));
    const answer = await post("/v1/chat/completions", { model: "up/m", messages: MESSAGES });
    assert.ok(answer.includes(ANSWERED));
  });
  assert.equal(receiver.text(), "");
});

/** Takes connections and never answers. */
function startBlackHole() {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const taken: Deno.Conn[] = [];
  const accepting = (async () => {
    for await (const connection of listener) taken.push(connection);
  })();
  return {
    url: `http://127.0.0.1:${listener.addr.port}`,
    taken,
    async stop() {
      listener.close();
      await accepting;
      for (const connection of taken) connection.close();
    },
  };
}

/** Requests with bodies, more than the queue of spans has room for; who exports them would wait for ten minutes. */
async function sendPast(collector: string): Promise<void> {
  const env = {
    OTEL_EXPORTER_OTLP_ENDPOINT: collector,
    OTEL_EXPORTER_OTLP_TIMEOUT: "600000",
    OTEL_BSP_MAX_QUEUE_SIZE: "32",
    OTEL_BSP_MAX_EXPORT_BATCH_SIZE: "8",
  };
  const config = { tracing: { bodies: true } };
  const { err } = await traced({ config, env, end: "SIGKILL" }, async ({ upstream, post }) => {
    upstream.script(() => chatCompletion({ text: ANSWERED, usage }));
    let left = 200;
    const work = async () => {
      while (left-- > 0) {
        const answer = await post("/v1/chat/completions", { model: "up/m", messages: MESSAGES });
        assert.ok(answer.includes(ANSWERED));
      }
    };
    await Promise.all(Array.from({ length: 8 }, work));
  });
  assert.ok(!err.includes("Uncaught"));
}

Deno.test("a collector that never answers makes no request wait", async () => {
  const hole = startBlackHole();
  try {
    await sendPast(hole.url);
    assert.ok(hole.taken.length > 0, "nothing was exported");
  } finally {
    await hole.stop();
  }
});

Deno.test("a collector that is not there makes no request wait", async () => {
  const hole = startBlackHole();
  await hole.stop();
  await sendPast(hole.url);
});
