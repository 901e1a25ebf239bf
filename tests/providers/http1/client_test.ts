import assert from "node:assert/strict";
import { createHttpClient } from "../../../src/providers/http1/client.ts";
import { createFakeClock } from "../../support/fake_clock.ts";
import { chatCompletion, chatFrames, chatStream } from "../../support/scripted_upstream.ts";
import { errorOf, eventually, post, realClock, textOf, withClient } from "./with_client.ts";

Deno.test("requests reach the upstream as they were, one after another on one connection", () =>
  withClient(async (upstream, client) => {
    const stream = { text: "one two three", usage: { promptTokens: 1, completionTokens: 3 } };
    upstream.script([chatCompletion({ text: "hi" }), chatStream(stream), { status: 204 }, {
      status: 302,
      headers: { location: "http://127.0.0.1:1/" },
      body: "moved",
    }]);
    const url = `${upstream.url}/chat/completions?a=b`;
    const fixedHeaders = [["authorization", "Bearer k"], [
      "content-type",
      "application/json",
    ]] as const;
    const first = await client.send(post(url, { fixedHeaders, headers: [["x-request-id", "r1"]] }));
    assert.equal(first.status, 200);
    assert.equal(first.header("content-type"), "application/json");
    assert.equal(JSON.parse(await textOf(first)).choices[0].message.content, "hi");
    assert.equal(await first.read(), null);
    assert.equal(
      await textOf(await client.send(post(url, { fixedHeaders }))),
      chatFrames(stream).join(""),
    );
    assert.equal(await (await client.send(post(url, { method: "GET", body: null }))).read(), null);
    const moved = await client.send(post(url));
    assert.equal(moved.status, 302);
    assert.equal(await textOf(moved), "moved");
    const [sent] = upstream.requests;
    assert.equal(sent?.path, "/v1/chat/completions?a=b");
    assert.equal(sent?.text, '{"model":"m"}');
    assert.deepEqual(sent?.headers, [
      ["host", `127.0.0.1:${upstream.port}`],
      ["accept-encoding", "identity"],
      ["authorization", "Bearer k"],
      ["content-type", "application/json"],
      ["x-request-id", "r1"],
      ["content-length", "13"],
    ]);
    assert.deepEqual(client.stats(), { open: 1, idle: 1, connects: 1, reused: 3, replays: 0 });
  }));

Deno.test("parallel requests get a connection each, and the one used last is used next", () =>
  withClient(async (upstream, client) => {
    upstream.script({ frames: ["x"] });
    const answers = await Promise.all([1, 2, 3].map(() => client.send(post(upstream.url))));
    assert.equal(client.stats().open, 3);
    assert.equal(upstream.open, 3);
    for (const answer of answers) assert.equal(await textOf(answer), "x");
    for (let i = 0; i < 3; i++) await textOf(await client.send(post(upstream.url)));
    assert.equal(upstream.accepted, 3);
    const later = upstream.requests.slice(3).map((request) => request.connection);
    assert.equal(new Set(later).size, 1);
  }));

Deno.test("no more idle connections are kept than allowed", () =>
  withClient(async (upstream, client) => {
    upstream.script({ frames: ["x"] });
    const answers = await Promise.all([1, 2, 3, 4].map(() => client.send(post(upstream.url))));
    await Promise.all(answers.map(textOf));
    assert.deepEqual([client.stats().open, client.stats().idle], [2, 2]);
    await upstream.until(() => upstream.open === 2);
  }, { maxIdlePerOrigin: 2 }));

Deno.test("idle connections are closed in time, and sooner when the server says so", async () => {
  const clock = createFakeClock();
  await withClient(async (upstream, client) => {
    upstream.script([{ body: "a" }, { body: "b", headers: { "keep-alive": "timeout=5, max=9" } }]);
    await textOf(await client.send(post(upstream.url)));
    await clock.advance(29_000);
    assert.equal(client.stats().idle, 1);
    await clock.advance(1_000);
    assert.deepEqual([client.stats().open, client.stats().idle], [0, 0]);
    assert.equal(clock.pending(), 0);
    await textOf(await client.send(post(upstream.url)));
    await clock.advance(3_999);
    assert.equal(client.stats().idle, 1);
    await clock.advance(1);
    assert.equal(client.stats().open, 0);
    await upstream.until(() => upstream.open === 0);
    assert.equal(clock.pending(), 0);
  }, { clock, idleMs: 30_000 });
});

Deno.test("a connection that the server closes while idle is noticed without a request", () =>
  withClient(async (upstream, client) => {
    for (const how of ["fin", "reset"] as const) {
      upstream.script({ body: "x" });
      await textOf(await client.send(post(upstream.url)));
      assert.equal(client.stats().idle, 1);
      await upstream.drop(how);
      await eventually(() => client.stats().open === 0);
      assert.equal(client.stats().idle, 0);
    }
    assert.equal(await textOf(await client.send(post(upstream.url))), "x");
    assert.equal(client.stats().replays, 0);
  }));

Deno.test("an idle connection that says something unasked is not used again", () =>
  withClient(async (upstream, client) => {
    const later = Promise.withResolvers<void>();
    const unasked = "HTTP/1.1 408 Timeout\r\ncontent-length: 0\r\n\r\n";
    upstream.script([
      { raw: ["HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx", { wait: later.promise }, unasked] },
      { body: "fresh" },
    ]);
    assert.equal(await textOf(await client.send(post(upstream.url))), "x");
    assert.equal(client.stats().idle, 1);
    later.resolve();
    await upstream.until(() => upstream.open === 0);
    assert.equal(await textOf(await client.send(post(upstream.url))), "fresh");
    assert.equal(upstream.accepted, 2);
  }));

Deno.test("bytes behind an answer cost the connection, not the answer", () =>
  withClient(async (upstream, client) => {
    upstream.script([
      {
        raw:
          "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nxHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil",
      },
      { body: "good" },
    ]);
    assert.equal(await textOf(await client.send(post(upstream.url))), "x");
    assert.equal(client.stats().open, 0);
    assert.equal(await textOf(await client.send(post(upstream.url))), "good");
  }));

Deno.test("a kept connection that ends before a byte of the answer is replaced once", () =>
  withClient(async (upstream, client) => {
    for (const end of ["reset", "cut"] as const) {
      upstream.script([{ body: "a" }, { raw: "", end }, { body: "b" }]);
      assert.equal(await textOf(await client.send(post(upstream.url))), "a");
      assert.equal(
        await textOf(await client.send(post(upstream.url, { body: new Uint8Array(9) }))),
        "b",
      );
      const [, lost, again] = upstream.requests.splice(0);
      assert.deepEqual(again?.body, lost?.body);
      assert.equal(lost?.connection === again?.connection, false);
      await upstream.drop("fin");
      await eventually(() => client.stats().open === 0);
    }
    assert.equal(client.stats().replays, 2);
  }, { clock: createFakeClock() }));

Deno.test("nothing is sent twice on a fresh connection, or twice over", () =>
  withClient(async (upstream, client) => {
    upstream.script([{ raw: "", end: "reset" }]);
    assert.equal((await errorOf(client.send(post(upstream.url)))).code, "upstream_cut");
    upstream.script([{ raw: "", end: "cut" }]);
    assert.equal((await errorOf(client.send(post(upstream.url)))).code, "upstream_cut");
    upstream.script([{ body: "a" }, { raw: "", end: "reset" }, { raw: "", end: "reset" }]);
    await textOf(await client.send(post(upstream.url)));
    assert.equal((await errorOf(client.send(post(upstream.url)))).code, "upstream_cut");
    assert.equal(upstream.requests.length, 5);
    assert.equal(client.stats().open, 0);
  }));

Deno.test("nothing is sent twice after a byte of the answer, or after the upstream had time to work", async () => {
  const clock = createFakeClock();
  await withClient(async (upstream, client) => {
    upstream.script([{ body: "a" }, { raw: "H", end: "reset" }]);
    await textOf(await client.send(post(upstream.url)));
    assert.equal((await errorOf(client.send(post(upstream.url)))).code, "upstream_cut");
    assert.equal(upstream.requests.length, 2);

    const worked = Promise.withResolvers<void>();
    upstream.script([{ body: "a" }, { before: [{ wait: worked.promise }], raw: "", end: "cut" }]);
    await textOf(await client.send(post(upstream.url)));
    const late = errorOf(client.send(post(upstream.url)));
    await upstream.until(() => upstream.requests.length === 4);
    await clock.advance(1001);
    worked.resolve();
    assert.equal((await late).code, "upstream_cut");
    assert.equal(upstream.requests.length, 4);
    assert.equal(client.stats().replays, 0);
  }, { clock });
});

Deno.test("a body that is cut is an error, in each framing and each way to end", () =>
  withClient(async (upstream, client) => {
    for (const end of ["cut", "reset"] as const) {
      for (const framing of [{}, { chunked: false, contentLength: 10 }]) {
        upstream.script({ frames: ["abc"], end, ...framing });
        const response = await client.send(post(upstream.url));
        assert.equal(new TextDecoder().decode(await response.read() ?? undefined), "abc");
        const error = await errorOf(response.read());
        assert.equal(error.code, "upstream_cut");
        assert.match(error.message, /^The connection to the upstream /);
        assert.equal((await errorOf(response.read())).code, "upstream_cut");
        assert.equal(client.stats().open, 0);
      }
    }
    upstream.script({ frames: ["abc"], chunked: false });
    assert.equal(await textOf(await client.send(post(upstream.url))), "abc");
    upstream.script({ frames: ["abc"], chunked: false, end: "reset" });
    const response = await client.send(post(upstream.url));
    assert.equal((await errorOf(textOf(response))).code, "upstream_cut");
    await upstream.until(() => upstream.open === 0);
  }));

Deno.test("a broken head is refused and its connection closed", () =>
  withClient(async (upstream, client) => {
    for (
      const raw of [
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nx",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\nx",
        "HTTP/1.1 101 Switching\r\n\r\n",
        `HTTP/1.1 200 OK\r\nx: ${"y".repeat(70_000)}`,
      ]
    ) {
      upstream.script({ raw, end: "stall" });
      assert.equal((await errorOf(client.send(post(upstream.url)))).code, "upstream_malformed");
      assert.equal(client.stats().open, 0);
    }
    await upstream.until(() => upstream.open === 0);
  }));

Deno.test("an early answer to a large body arrives, and its connection is not kept", () =>
  withClient(async (upstream, client) => {
    upstream.answerBeforeBody(() => true);
    upstream.script({ status: 413, body: "too large", end: "stall" });
    const body = new Uint8Array(32 * 1024 * 1024);
    const response = await client.send(post(upstream.url, { body }));
    assert.equal(response.status, 413);
    assert.equal(await textOf(response), "too large");
    assert.equal(client.stats().open, 0);
  }));

Deno.test("a large body arrives whole", () =>
  withClient(async (upstream, client) => {
    upstream.script({ body: "ok" });
    const body = new Uint8Array(8 * 1024 * 1024).map((_, i) => i % 251);
    assert.equal(await textOf(await client.send(post(upstream.url, { body }))), "ok");
    assert.deepEqual(upstream.requests[0]?.body, body);
    assert.equal(client.stats().idle, 1);
  }));

Deno.test("a host that refuses or does not exist is unreachable, without secrets in the message", async () => {
  const client = createHttpClient({ clock: realClock });
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  listener.close();
  const refused = await errorOf(client.send(post(`http://127.0.0.1:${port}/v1?key=secret`)));
  assert.equal(refused.code, "upstream_unreachable");
  assert.equal(refused.message, "Connecting to the upstream failed: connection refused");
  assert.equal(refused.details?.["address"], `127.0.0.1:${port}`, "the log says where");
  const unknown = await errorOf(client.send(post("http://nowhere.invalid/v1?key=secret")));
  assert.equal(unknown.code, "upstream_unreachable");
  assert.match(unknown.message, /^Connecting to the upstream failed: /);
  assert.equal(client.stats().open, 0);
  client.close();
});

Deno.test("a connection over IPv6 works, with its brackets in the Host field", async () => {
  const listener = Deno.listen({ hostname: "::1", port: 0 });
  const client = createHttpClient({ clock: realClock });
  const { port } = listener.addr;
  const asked = client.send(post(`http://[::1]:${port}/`, { method: "GET", body: null }));
  const socket = await listener.accept();
  const buffer = new Uint8Array(1000);
  const count = await socket.read(buffer) ?? 0;
  assert.match(
    new TextDecoder().decode(buffer.subarray(0, count)),
    new RegExp(`host: \\[::1\\]:${port}`),
  );
  await socket.write(new TextEncoder().encode("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nsix"));
  socket.close();
  assert.equal(await textOf(await asked), "six");
  listener.close();
  client.close();
});

Deno.test("close ends everything and refuses what comes later", () =>
  withClient(async (upstream, client) => {
    upstream.script([{ body: "a" }, { frames: ["b"], end: "stall" }]);
    await textOf(await client.send(post(upstream.url)));
    const busy = await client.send(post(upstream.url));
    await busy.read();
    const pending = errorOf(busy.read());
    client.close();
    assert.equal((await pending).code, "upstream_cut");
    assert.equal(client.stats().open, 0);
    assert.equal((await errorOf(client.send(post(upstream.url)))).code, "shutting_down");
    await upstream.until(() => upstream.open === 0);
  }));
