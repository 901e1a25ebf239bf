import assert from "node:assert/strict";
import { gzipSync } from "node:zlib";
import { joinBytes } from "../../src/core/join_bytes.ts";
import { peakMemoryOf, withProgram } from "./memory_of.ts";

const MIB = 1024 * 1024;

Deno.test("readBody decodes bombs in bounded memory, and other requests are served meanwhile", {
  ignore: Deno.build.os !== "linux",
}, () =>
  withProgram("body_server.ts", [], async ({ pid, ready }) => {
    const url = `http://127.0.0.1:${ready}`;
    const send = async (coding: string, body: Uint8Array<ArrayBuffer>) => {
      const answer = await fetch(`${url}/body`, {
        method: "POST",
        headers: { "content-encoding": coding },
        body,
      });
      return { status: answer.status, body: await answer.json() };
    };
    const longest = async () => {
      const answer = await fetch(`${url}/longest`);
      return Number((await answer.json()).longestMs);
    };

    const plain = await send("gzip", new Uint8Array(gzipSync("x".repeat(MIB))));
    assert.deepEqual(plain, { status: 200, body: { bytes: MIB } });
    // 30 MiB that compress about 100 times: within all bounds, and about the most work that a request can ask for.
    const lines = mixed(30 * MIB);
    await longest();
    const large = await send("gzip", new Uint8Array(gzipSync(lines)));
    assert.deepEqual(large, { status: 200, body: { bytes: lines.length } });
    assert.ok(await longest() < 250, "a large body held the event loop");

    const before = await peakMemoryOf(pid);
    for (const coding of ["gzip", "deflate"] as const) {
      const bomb = await bombOf(coding, 500);
      const answers = await Promise.all(
        Array.from({ length: 8 }, () => send(coding, bomb)),
      );
      for (const { status, body } of answers) {
        assert.equal(status, 413);
        assert.equal(body.error.code, "body_too_large");
      }
    }
    const grown = await peakMemoryOf(pid) - before;
    assert.ok(grown < 200 * MIB, `16 bombs took ${Math.round(grown / MIB)} MiB`);
    assert.ok(await longest() < 250, "bombs held the event loop");
  }));

/** Zeros with 512 random bytes in each 64 KiB: they compress about 100 times. */
function mixed(length: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at += 65_536) crypto.getRandomValues(bytes.subarray(at, at + 512));
  return bytes;
}

/** So many MiB of zeros, compressed some 1000 times. */
async function bombOf(
  format: CompressionFormat,
  mebibytes: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const zeros = new Uint8Array(MIB);
  let left = mebibytes;
  const source = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull(controller) {
      if (left-- === 0) controller.close();
      else controller.enqueue(zeros);
    },
  });
  const pieces = await Array.fromAsync(source.pipeThrough(new CompressionStream(format)));
  return new Uint8Array(joinBytes(pieces));
}
