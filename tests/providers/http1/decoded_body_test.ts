import assert from "node:assert/strict";
import { deflateSync, gzipSync } from "node:zlib";
import { settle } from "../../support/fake_clock.ts";
import { errorOf, post, textOf, withClient } from "./with_client.ts";

const text = "data: hello\n\n".repeat(3000);

Deno.test("gzip and deflate sent unasked are decoded, and no header speaks of them any more", () =>
  withClient(async (upstream, client) => {
    for (const coding of ["gzip", "x-gzip", "deflate"]) {
      const body = new Uint8Array(coding === "deflate" ? deflateSync(text) : gzipSync(text));
      for (const chunked of [false, true]) {
        upstream.script({
          headers: { "content-encoding": coding, "content-type": "text/event-stream" },
          ...(chunked ? { frames: [body.slice(0, 20), body.slice(20)] } : { body }),
        });
        const response = await client.send(post(upstream.url));
        assert.equal(response.header("content-encoding"), null);
        assert.equal(response.header("content-length"), null);
        assert.equal(response.header("content-type"), "text/event-stream");
        assert.ok(!response.headers.some(([name]) => name.startsWith("content-e")));
        assert.equal(await textOf(response), text);
        assert.equal(await response.read(), null);
        assert.equal(client.stats().idle, 1);
      }
    }
  }));

Deno.test("other codings, broken data and cut data are errors", () =>
  withClient(async (upstream, client) => {
    const headers = { "content-encoding": "gzip" };
    const body = new Uint8Array(gzipSync(text));
    upstream.script({ headers: { "content-encoding": "br" }, body: "x" });
    assert.equal((await errorOf(client.send(post(upstream.url)))).code, "upstream_malformed");
    upstream.script({ headers, body: "no gzip at all" });
    const junk = await client.send(post(upstream.url));
    assert.equal((await errorOf(textOf(junk))).code, "upstream_malformed");
    upstream.script({ headers, body: body.slice(0, -9) });
    const short = await client.send(post(upstream.url));
    assert.equal((await errorOf(textOf(short))).code, "upstream_malformed");
    upstream.script({ headers, frames: [body.slice(0, 100)], end: "cut" });
    const cut = await client.send(post(upstream.url));
    assert.equal((await errorOf(textOf(cut))).code, "upstream_cut");
    await upstream.until(() => upstream.open === client.stats().idle);
  }));

Deno.test("a bomb unpacks in steps, so that its reader can stop in time", () =>
  withClient(async (upstream, client) => {
    // 512 random bytes in each 64 KiB of zeros keep it below the largest ratio.
    const plain = new Uint8Array(100 * 1024 * 1024);
    for (let at = 0; at < plain.length; at += 65_536) {
      crypto.getRandomValues(plain.subarray(at, at + 512));
    }
    const bomb = new Uint8Array(gzipSync(plain));
    upstream.script({ headers: { "content-encoding": "gzip" }, body: bomb });
    const response = await client.send(post(upstream.url));
    let total = 0;
    while (total < 10 * 1024 * 1024) {
      const piece = await response.read();
      assert.ok(piece !== null && piece.length <= 2 * 1024 * 1024, `a piece of ${piece?.length}`);
      total += piece.length;
    }
    response.cancel();
    assert.equal((await errorOf(response.read())).code, "aborted");
    await upstream.until(() => upstream.open === client.stats().idle);
  }));

Deno.test("an answer that decodes to more than 256 times its size is given up early", () =>
  withClient(async (upstream, client) => {
    const bomb = new Uint8Array(gzipSync(new Uint8Array(200 * 1024 * 1024), { level: 9 }));
    upstream.script({ headers: { "content-encoding": "gzip" }, body: bomb });
    const response = await client.send(post(upstream.url));
    let total = 0;
    const read = async () => {
      for (;;) total += (await response.read())?.length ?? 0;
    };
    const error = await errorOf(read());
    assert.equal(error.code, "upstream_malformed");
    assert.match(error.message, /more than 256 times/);
    assert.ok(total <= 4 * 1024 * 1024, `${total} bytes were given`);
    await upstream.until(() => upstream.open === client.stats().idle);
  }));

Deno.test("a stop while decoding closes the connection", () =>
  withClient(async (upstream, client) => {
    const frames = [new Uint8Array(gzipSync(text)).slice(0, 30)];
    upstream.script({ headers: { "content-encoding": "gzip" }, frames, end: "stall" });
    for (const way of ["cancel", "abort"]) {
      const abort = new AbortController();
      const response = await client.send(post(upstream.url, { signal: abort.signal }));
      const read = errorOf(textOf(response));
      await settle();
      if (way === "cancel") response.cancel();
      else abort.abort();
      assert.equal((await read).code, "aborted");
      await upstream.until(() => upstream.open === 0, 250);
    }
  }));
