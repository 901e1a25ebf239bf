import assert from "node:assert/strict";
import { HubError } from "../../src/core/error.ts";
import { MAX_KEPT_BYTES, SharedAnswer } from "../../src/run/shared_answer.ts";
import { settle } from "../support/fake_clock.ts";

const HEAD = { contentType: "text/plain", headers: {} };
const bytes = (text: string) => new TextEncoder().encode(text);
const big = (size: number) => new Uint8Array(size);

/** An answer, with what was called back. */
function rig() {
  const said: string[] = [];
  const shared = new SharedAnswer(() => said.push("gone"));
  return { shared, said };
}

Deno.test("each reader gets all bytes at its own pace; the maker goes as fast as the fastest", async () => {
  const { shared } = rig();
  const readers = [shared.attach(), shared.attach()];
  let made = 0;
  const making = (async () => {
    shared.begin(HEAD);
    while (made < 5 && await shared.demand()) shared.push(bytes(`${made++}`));
    shared.end();
  })();
  await settle();
  assert.equal(made, 0);
  const [fast, slow] = readers;
  assert.deepEqual(await fast?.begun, HEAD);
  assert.deepEqual(await fast?.read(), bytes("0"));
  await settle();
  assert.equal(made, 1);
  const rest = [];
  for (let piece = await fast?.read(); piece; piece = await fast?.read()) rest.push(piece);
  await making;
  assert.deepEqual(rest, ["1", "2", "3", "4"].map(bytes));
  const late = shared.attach();
  for (const reader of [slow, late]) {
    for (let at = 0; at < 5; at++) assert.deepEqual(await reader?.read(), bytes(`${at}`));
    assert.equal(await reader?.read(), null);
  }
});

Deno.test("one that fails gives what it has, then its reason, and nobody new", async () => {
  const { shared, said } = rig();
  const reader = shared.attach();
  shared.begin(HEAD);
  shared.push(bytes("a"));
  const failure = new HubError("upstream_cut", "Cut");
  shared.fail(failure);
  assert.deepEqual(said, ["gone"]);
  assert.deepEqual(await reader.read(), bytes("a"));
  await assert.rejects(reader.read(), failure);

  const never = rig();
  const waiting = never.shared.attach();
  const read = waiting.read();
  never.shared.fail(failure);
  await assert.rejects(read, failure);
  await assert.rejects(waiting.begun, failure);
});

Deno.test("the last reader that leaves is told of once; a whole answer has none to be told of", async () => {
  const { shared, said } = rig();
  const readers = [shared.attach(), shared.attach()];
  shared.onIdle(() => said.push("idle"));
  const pending = readers[0]?.read();
  readers[0]?.close();
  readers[0]?.close();
  await assert.rejects(pending ?? Promise.resolve(), { code: "client_closed" });
  assert.deepEqual(said, []);
  readers[1]?.close();
  assert.deepEqual(said, ["gone", "idle"]);
  const demand = shared.demand();
  shared.drain();
  assert.equal(await demand, true);
  shared.stop();
  assert.equal(await shared.demand(), false);

  const whole = rig();
  whole.shared.onIdle(() => whole.said.push("idle"));
  whole.said.length = 0;
  const reader = whole.shared.attach();
  whole.shared.end();
  reader.close();
  assert.deepEqual(whole.said, []);
});

Deno.test("past the bound the oldest reader goes on alone, and what it has read is let go", async () => {
  const { shared } = rig();
  const readers = [shared.attach(), shared.attach(), shared.attach()];
  const [oldest, fast, stuck] = readers;
  shared.push(big(MAX_KEPT_BYTES));
  await fast?.read();
  assert.equal(shared.isOverflown, false);
  shared.push(bytes("more"));
  assert.equal(shared.isOverflown, true);
  for (const reader of [fast, stuck, shared.attach()]) {
    await assert.rejects(reader?.read() ?? Promise.resolve(), {
      clientCode: "idempotency_answer_too_large",
    });
  }
  assert.equal((await oldest?.read())?.length, MAX_KEPT_BYTES);
  assert.deepEqual(await oldest?.read(), bytes("more"));
  for (let at = 0; at < 100; at++) {
    shared.push(bytes(`${at}`));
    assert.deepEqual(await oldest?.read(), bytes(`${at}`));
  }
  shared.end();
  assert.equal(await oldest?.read(), null);
});
