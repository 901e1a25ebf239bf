import assert from "node:assert/strict";
import {
  chatCompletion,
  chatError,
  chatFrames,
  chatStream,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "./scripted_upstream.ts";

async function withUpstream(use: (upstream: ScriptedUpstream) => Promise<void>): Promise<void> {
  const upstream = await startScriptedUpstream();
  try {
    await use(upstream);
  } finally {
    await upstream.stop();
  }
}

async function dial(upstream: ScriptedUpstream): Promise<Deno.TcpConn> {
  return await Deno.connect({ hostname: "127.0.0.1", port: upstream.port });
}

async function readAll(connection: Deno.Conn): Promise<string> {
  let text = "";
  const buffer = new Uint8Array(65536);
  for (;;) {
    const count = await connection.read(buffer);
    if (count === null) return text;
    text += new TextDecoder().decode(buffer.subarray(0, count));
  }
}

async function send(connection: Deno.Conn, text: string): Promise<void> {
  await connection.write(new TextEncoder().encode(text));
}

Deno.test("a completion and a stream reach a fetch client whole", () =>
  withUpstream(async (upstream) => {
    upstream.script([
      chatCompletion({ text: "Hello", usage: { promptTokens: 3, completionTokens: 1 } }),
      chatStream({ text: "a b c", usage: { promptTokens: 3, completionTokens: 3 } }),
      chatError(429, { headers: { "retry-after": "7" } }),
    ]);
    const client = Deno.createHttpClient({});
    const post = () =>
      fetch(`${upstream.url}/chat/completions?x=1`, { method: "POST", body: '{"a":1}', client });
    const whole = await (await post()).json();
    assert.equal(whole.choices[0].message.content, "Hello");
    assert.equal(whole.usage.total_tokens, 4);
    assert.equal(
      await (await post()).text(),
      chatFrames({ text: "a b c", usage: { promptTokens: 3, completionTokens: 3 } }).join(""),
    );
    const refused = await post();
    assert.equal(refused.status, 429);
    assert.equal(refused.headers.get("retry-after"), "7");
    await refused.text();
    assert.equal((await (await post()).json()).error.message, "The script has no reply left");
    client.close();
    const [first] = upstream.requests;
    assert.ok(first);
    assert.equal(first.method, "POST");
    assert.equal(first.path, "/v1/chat/completions?x=1");
    assert.deepEqual(first.json, { a: 1 });
    await upstream.until(() => upstream.open === 0);
  }));

Deno.test("the four ends differ on the wire", () =>
  withUpstream(async (upstream) => {
    const ask = "POST /v1/x HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi";
    upstream.script([
      { frames: ["ab"], end: "cut" },
      { frames: ["ab"], end: "reset" },
      { frames: ["ab"], keepAlive: false },
      { frames: ["ab"], end: "stall" },
    ]);
    const cut = await dial(upstream);
    await send(cut, ask);
    assert.match(await readAll(cut), /2\r\nab\r\n$/);
    cut.close();

    const reset = await dial(upstream);
    await send(reset, ask);
    await assert.rejects(readAll(reset), Deno.errors.ConnectionReset);
    reset.close();

    const clean = await dial(upstream);
    await send(clean, ask);
    assert.match(await readAll(clean), /connection: close\r\n\r\n2\r\nab\r\n0\r\n\r\n$/);
    clean.close();
    await upstream.until(() => upstream.open === 0);
    assert.equal(upstream.closedByClient.length, 0);

    const stalled = await dial(upstream);
    await send(stalled, ask);
    await stalled.read(new Uint8Array(1000));
    stalled.close();
    await upstream.until(() => upstream.closedByClient.length === 1);
    const [close] = upstream.closedByClient;
    assert.equal(close?.during, "reply");
    assert.equal(close?.request, upstream.requests[3]);
    await upstream.until(() => upstream.open === 0);
  }));

Deno.test("it sees where a client leaves: idle, in the request, in the reply", () =>
  withUpstream(async (upstream) => {
    upstream.script({ before: [{ wait: new Promise(() => {}) }] });
    const idle = await dial(upstream);
    await upstream.until(() => upstream.open === 1);
    idle.close();
    await upstream.until(() => upstream.closedByClient.length === 1);
    const asking = await dial(upstream);
    await send(asking, "POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nab");
    asking.close();
    await upstream.until(() => upstream.closedByClient.length === 2);
    const waiting = await dial(upstream);
    await send(waiting, "GET / HTTP/1.1\r\n\r\n");
    await upstream.until(() => upstream.requests.length === 1);
    waiting.close();
    await upstream.until(() => upstream.open === 0);
    assert.deepEqual(upstream.closedByClient.map((close) => close.during), [
      "idle",
      "request",
      "reply",
    ]);
  }));

Deno.test("stop leaves nothing behind, whatever is under way", async () => {
  const upstream = await startScriptedUpstream({ frames: ["a", { delayMs: 60_000 }] });
  const connection = await dial(upstream);
  await send(connection, "GET / HTTP/1.1\r\n\r\n");
  await upstream.until(() => upstream.requests.length === 1);
  await upstream.stop();
  connection.close();
});

Deno.test("chunked requests are read, early answers are not held up by the body", () =>
  withUpstream(async (upstream) => {
    upstream.script({ status: 413, body: "no", keepAlive: false });
    const chunked = await dial(upstream);
    await send(
      chunked,
      "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
    );
    assert.match(await readAll(chunked), /^HTTP\/1\.1 413 /);
    chunked.close();
    assert.equal(upstream.requests[0]?.text, "abc");
    upstream.answerBeforeBody(() => true);
    const early = await dial(upstream);
    await send(early, "POST / HTTP/1.1\r\ncontent-length: 1000000\r\n\r\nab");
    assert.match(await readAll(early), /no$/);
    early.close();
    await upstream.until(() => upstream.open === 0);
  }));

Deno.test("tool calls are streamed in the dialect's own way", () => {
  const frames = chatFrames({
    toolCalls: [{ id: "c1", name: "add", arguments: { a: 1 }, pieces: 3 }],
    reasoning: "so it is",
  });
  const deltas = frames.slice(0, -1).map((frame) => JSON.parse(frame.slice(6)).choices[0]);
  assert.equal(frames.at(-1), "data: [DONE]\n\n");
  assert.equal(deltas.at(-1).finish_reason, "tool_calls");
  assert.equal(deltas.map((choice) => choice.delta.reasoning_content ?? "").join(""), "so it is");
  const calls = deltas.flatMap((choice) => choice.delta.tool_calls ?? []);
  assert.deepEqual(calls[0], {
    index: 0,
    id: "c1",
    type: "function",
    function: { name: "add", arguments: "" },
  });
  assert.equal(calls.map((call) => call.function.arguments).join(""), '{"a":1}');
  assert.equal(calls.length, 4);
});
