import fc from "fast-check";
import assert from "node:assert/strict";
import { HubError } from "../../../src/core/error.ts";
import { createHttpClient } from "../../../src/providers/http1/client.ts";
import { createFakeClock } from "../../support/fake_clock.ts";
import { property } from "../../support/property.ts";
import { bytesOf, cutAt, memorySocket } from "./memory_socket.ts";

interface Seen {
  status: number | null;
  headers: [string, string][];
  text: string;
  end: string;
  open: number;
}

/** Everything a caller can see of an answer that arrives in these pieces and is followed by the end of the connection. */
async function see(pieces: readonly Uint8Array[], method: "GET" | "HEAD" = "GET"): Promise<Seen> {
  const client = createHttpClient({
    clock: createFakeClock(),
    connect: () => Promise.resolve(memorySocket(pieces)),
  });
  const seen: Seen = { status: null, headers: [], text: "", end: "", open: 0 };
  try {
    const response = await client.send({
      method,
      url: "http://up.test/",
      headers: [],
      body: null,
      signal: new AbortController().signal,
      connectTimeoutMs: 1000,
    });
    seen.status = response.status;
    seen.headers = response.headers;
    for (let piece = await response.read(); piece !== null; piece = await response.read()) {
      assert.ok(piece.length > 0);
      seen.text += new TextDecoder("latin1").decode(piece);
    }
    seen.end = "whole";
    assert.equal(await response.read(), null);
  } catch (error) {
    if (!(error instanceof HubError)) throw error;
    seen.end = error.code;
  }
  // A connection kept for another request sees the end of this one and goes.
  for (let turn = 0; turn < 8; turn++) await Promise.resolve();
  seen.open = client.stats().open;
  client.close();
  return seen;
}

const chunks = "5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nt: u\r\n\r\n";
const ANSWERS: Record<string, { wire: string; end: string; text: string }> = {
  length: {
    wire: "HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\nhello world",
    end: "whole",
    text: "hello world",
  },
  chunked: {
    wire: `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${chunks}`,
    end: "whole",
    text: "hello world",
  },
  close: { wire: "HTTP/1.0 200 OK\r\n\r\nhello world", end: "whole", text: "hello world" },
  empty: { wire: "HTTP/1.1 204 No Content\r\n\r\n", end: "whole", text: "" },
  interim: {
    wire: "HTTP/1.1 103 Early\r\nlink: x\r\n\r\nHTTP/1.1 100 C\r\n\r\n" +
      "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
    end: "whole",
    text: "hello",
  },
  surplus: {
    wire: "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello, and more",
    end: "whole",
    text: "hello",
  },
  short: {
    wire: "HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\nhello world",
    end: "upstream_cut",
    text: "hello world",
  },
  unended: {
    wire: "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
    end: "upstream_cut",
    text: "hello",
  },
  misfit: {
    wire: "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello!\r\n0\r\n\r\n",
    end: "upstream_malformed",
    text: "hello",
  },
};

for (const [name, { wire, end, text }] of Object.entries(ANSWERS)) {
  Deno.test(`an answer (${name}) is the same at every cut and in single bytes`, async () => {
    const bytes = bytesOf(wire);
    const whole = await see([bytes]);
    assert.deepEqual([whole.end, whole.text, whole.open], [end, text, 0]);
    for (let cut = 1; cut < bytes.length; cut++) {
      assert.deepEqual(await see(cutAt(bytes, [cut])), whole, `cut at ${cut}`);
    }
    assert.deepEqual(await see([...bytes].map((byte) => Uint8Array.of(byte))), whole);
  });

  if (end !== "whole" || name === "surplus") continue;

  Deno.test(`an answer (${name}) that stops anywhere is never taken for whole`, async () => {
    const bytes = bytesOf(wire);
    const headEnd = wire.lastIndexOf("\r\n\r\n", name === "chunked" ? wire.length - 10 : undefined);
    for (let length = 0; length < bytes.length; length++) {
      const seen = await see([bytes.subarray(0, length)]);
      // Only closing ends a close-delimited body, so that a short one cannot be told from a whole one.
      const wanted = name === "close" && length >= headEnd + 4 ? "whole" : "upstream_cut";
      assert.equal(seen.end, wanted, `after ${length} bytes`);
      assert.equal(seen.open, 0);
    }
  });
}

Deno.test("a HEAD answer has no body, whatever its length says", async () => {
  const seen = await see([bytesOf("HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n")], "HEAD");
  assert.deepEqual([seen.end, seen.text], ["whole", ""]);
});

Deno.test("a protocol switch and endless interim answers are refused", async () => {
  assert.equal((await see([bytesOf("HTTP/1.1 101 S\r\n\r\n")])).end, "upstream_malformed");
  const interim = bytesOf(`HTTP/1.1 103 E\r\nx: ${"y".repeat(1000)}\r\n\r\n`.repeat(100));
  assert.equal((await see([interim])).end, "upstream_malformed");
});

Deno.test("a head in several buffers, and bodies larger than any buffer, arrive whole", async () => {
  const fields = Array.from({ length: 150 }, (_, i) => `x-${i}: ${"v".repeat(300)}\r\n`).join("");
  const text = "0123456789".repeat(50_000);
  const bytes = bytesOf(
    `HTTP/1.1 200 OK\r\n${fields}content-length: ${text.length}\r\n\r\n${text}`,
  );
  for (const size of [bytes.length, 5000, 700]) {
    const places = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => i * size);
    const seen = await see(cutAt(bytes, places));
    assert.equal(seen.headers.length, 151);
    assert.equal(seen.text === text, true);
  }
});

const token = fc.constantFrom(
  ..."HTTP/1.1 200 OK|HTTP/1.0 |\r\n|\r\n\r\n|\r|\n|:| |\t|0|5|a|ffffff|;|content-length: 5|content-length: 0"
    .split("|"),
  ..."transfer-encoding: chunked|connection: close|hello|0\r\n\r\n|HTTP/1.1 100 C\r\n\r\n|\0|\xff"
    .split("|"),
);

property(
  "junk ends with an error or an answer, never with a hang, a crash or an open connection",
  fc.tuple(
    fc.boolean(),
    fc.array(fc.oneof(token, fc.string({ maxLength: 8 })), { maxLength: 30 }),
    fc.array(fc.nat(200), { maxLength: 6 }),
  ),
  async ([started, parts, places]) => {
    const text = (started ? "HTTP/1.1 200 OK\r\n" : "") + parts.join("");
    const bytes = bytesOf(text);
    const whole = await see([bytes]);
    const cut = await see(cutAt(bytes, places));
    assert.deepEqual(cut, whole);
    assert.equal(whole.open, 0);
  },
  { runs: 1000 },
);
