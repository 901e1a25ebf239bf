import assert from "node:assert/strict";
import type { BodySource } from "../../../src/core/body_source.ts";
import { HubError } from "../../../src/core/error.ts";
import { errorOf, post, textOf, withClient } from "./with_client.ts";

const encoder = new TextEncoder();

function sourceOf(pieces: readonly (string | Error | Promise<never>)[], length: number | null) {
  const rest = [...pieces];
  const source: BodySource & { pulls: number } = {
    length,
    pulls: 0,
    async pull() {
      source.pulls++;
      const piece = rest.shift();
      if (piece instanceof Error) throw piece;
      return piece === undefined ? null : encoder.encode(await piece);
    },
  };
  return source;
}

Deno.test("a body is sent while it comes: with its length, or in chunks", () =>
  withClient(async (upstream, client) => {
    upstream.script({ body: "ok" });
    for (const length of [9, null]) {
      const source = sourceOf(["one", "two", "six"], length);
      assert.equal(
        await textOf(await client.send(post(upstream.url, { body: null, source }))),
        "ok",
      );
      const sent = upstream.requests.at(-1);
      assert.equal(sent?.text, "onetwosix");
      assert.equal(sent?.header("content-length"), length === null ? null : "9");
      assert.equal(sent?.header("transfer-encoding"), length === null ? "chunked" : null);
    }
    assert.equal(upstream.accepted, 2, "a kept connection is no place for what is sent once");
    await textOf(await client.send(post(upstream.url)));
    await textOf(await client.send(post(upstream.url, { once: true })));
    assert.equal(upstream.accepted, 3);
  }));

Deno.test("a body that fails, or has another length, never looks whole", () =>
  withClient(async (upstream, client) => {
    upstream.script({ body: "ok" });
    const failure = new HubError("invalid_request", "the form is broken");
    for (const length of [9, null]) {
      const source = sourceOf(["one", failure], length);
      assert.equal(await errorOf(client.send(post(upstream.url, { body: null, source }))), failure);
    }
    for (const pieces of [["one"], ["one", "two", "three"]]) {
      const source = sourceOf(pieces, 9);
      const error = await errorOf(client.send(post(upstream.url, { body: null, source })));
      assert.equal(error.code, "internal_error");
    }
    assert.equal(upstream.requests.filter(({ text }) => text.length === 9).length, 0);
    await upstream.until(() => upstream.open === 0);
  }));

Deno.test("an answer that comes before the body is whole is the answer; the rest is not sent", () =>
  withClient(async (upstream, client) => {
    upstream.answerBeforeBody(() => true);
    upstream.script({ status: 401, body: "no" });
    const never = new Promise<never>(() => {});
    const source = sourceOf(["one", never, "two"], 9);
    const answer = await client.send(post(upstream.url, { body: null, source }));
    assert.equal(answer.status, 401);
    assert.equal(await textOf(answer), "no");
    assert.equal(client.stats().idle, 0, "nobody may follow on this connection");
    assert.ok(source.pulls <= 2);
    upstream.readLeftBodies();
  }));

Deno.test("a request that is stopped stops its body", () =>
  withClient(async (upstream, client) => {
    upstream.script({ body: "ok" });
    const stop = new AbortController();
    const source = sourceOf(["one", new Promise<never>(() => {})], 9);
    const sent = client.send(post(upstream.url, { body: null, source, signal: stop.signal }));
    await upstream.until(() => upstream.accepted === 1);
    stop.abort();
    assert.equal((await errorOf(sent)).code, "aborted");
    await upstream.until(() => upstream.open === 0);
  }));
