import fc from "fast-check";
import assert from "node:assert/strict";
import { joinBytes } from "../../../src/core/join_bytes.ts";
import type { HubRequest } from "../../../src/http/hub_request.ts";
import { bytesReply, type Reply, streamReply } from "../../../src/http/reply.ts";
import { cutAt } from "../../providers/http1/memory_socket.ts";
import { settle } from "../../support/fake_clock.ts";
import { property } from "../../support/property.ts";
import { MemoryClient, MemoryServer, readAnswers } from "./memory_client.ts";

interface Planned {
  /** Bytes of the body; null for none. */
  size: number | null;
  /** Sizes of the chunks it comes in; empty for a body with a length. */
  chunks: number[];
  /** Turns of the microtask queue before the handler reads the body; null when it does not. */
  readAfter: number | null;
  /** Turns before the handler answers. */
  answerAfter: number;
  answer: "small" | "large" | "stream" | "flushed";
}

const size = fc.oneof(fc.nat(40), fc.nat(6000), fc.constantFrom(4096, 65536, 70000, 300000));
const planned: fc.Arbitrary<Planned> = fc.record({
  size: fc.option(size, { freq: 3 }),
  chunks: fc.array(fc.integer({ min: 1, max: 5000 }), { maxLength: 4 }),
  readAfter: fc.option(fc.nat(30), { freq: 4 }),
  answerAfter: fc.nat(60),
  answer: fc.constantFrom("small", "large", "stream", "flushed"),
});

const turns = async (count: number) => {
  for (let turn = 0; turn < count; turn++) await Promise.resolve();
};
const bodyOf = (index: number, length: number) =>
  Uint8Array.from({ length }, (_, at) => (index * 31 + at * 7 + (at >> 8)) & 255);
const latin1 = (bytes: Uint8Array) => new TextDecoder("latin1").decode(bytes);

function wireOf(plan: Planned, { client, index }: { client: number; index: number }) {
  const encoder = new TextEncoder();
  const line = `POST /${client}/${index} HTTP/1.1\r\nhost: localhost\r\nx-index: ${index}\r\n`;
  if (plan.size === null) return [encoder.encode(`${line}\r\n`)];
  const body = bodyOf(index, plan.size);
  if (plan.chunks.length === 0) {
    return [encoder.encode(`${line}content-length: ${body.length}\r\n\r\n`), body];
  }
  const pieces = [encoder.encode(`${line}transfer-encoding: chunked\r\n\r\n`)];
  for (let at = 0, n = 0; at < body.length; n++) {
    const piece = body.subarray(at, at += plan.chunks[n % plan.chunks.length] ?? 1);
    pieces.push(encoder.encode(`${piece.length.toString(16)};x=y\r\n`));
    pieces.push(piece, encoder.encode("\r\n"));
  }
  pieces.push(encoder.encode("0\r\ntrailer: x\r\n\r\n"));
  return pieces;
}

function answerOf(plan: Planned, index: number): string {
  return `answer ${index} `.repeat(plan.answer === "large" ? 7000 : 3);
}

function makeReply(plan: Planned, index: number): Reply {
  const text = answerOf(plan, index);
  const options = { contentType: "text/plain" };
  if (plan.answer === "small" || plan.answer === "large") return bytesReply(text, options);
  const pieces = text.match(/.{1,7}/g)?.map((piece) => new TextEncoder().encode(piece)) ?? [];
  const pull = async () => {
    await turns(plan.answerAfter % 7);
    return pieces.shift() ?? null;
  };
  return streamReply({ pull, cancel() {} }, { ...options, flush: plan.answer === "flushed" });
}

interface Conversation {
  plans: Planned[];
  cuts: number[];
  waits: number[];
  takes: number[];
  delay: number;
}

const conversation: fc.Arbitrary<Conversation> = fc.record({
  plans: fc.array(planned, { minLength: 1, maxLength: 6 }),
  cuts: fc.array(fc.nat(400_000), { maxLength: 40 }).chain((far) =>
    fc.array(fc.nat(3000), { maxLength: 40 }).map((near) => [...far, ...near])
  ),
  waits: fc.array(fc.nat(60), { minLength: 1, maxLength: 10 }),
  takes: fc.array(fc.integer({ min: 1, max: 9000 }), { maxLength: 5 }),
  delay: fc.nat(5),
});

property(
  "pipelined requests get their own bodies and answers, however bytes are cut and taken and whenever bodies are read",
  fc.array(conversation, { minLength: 1, maxLength: 3 }),
  async (conversations) => {
    const server = new MemoryServer(async (request: HubRequest) => {
      const [, client = "", number = ""] = request.target.split("/");
      const index = Number(number);
      const { plans } = conversations[Number(client)] ?? assert.fail("no such client");
      const plan = plans[index] ?? assert.fail("no such request");
      await turns(plan.readAfter ?? 0);
      const body = plan.readAfter === null ? null : await request.collectBody(1e6);
      const copy = body === null ? null : latin1(body);
      await turns(plan.answerAfter);
      assert.equal(request.header("x-index"), number);
      if (body !== null) {
        assert.equal(copy, latin1(bodyOf(index, plan.size ?? 0)), "a body is not the client's");
        seen.push({ body, copy: copy ?? "", request, number });
      }
      const reply = makeReply(plan, index);
      reply.listener = { ended: ({ outcome }) => ends.push(outcome) };
      return reply;
    });
    const seen: { body: Uint8Array; copy: string; request: HubRequest; number: string }[] = [];
    const ends: string[] = [];
    await Promise.all(conversations.map(async ({ plans, cuts, waits, takes, delay }, number) => {
      const client = new MemoryClient({ sizes: takes, delay });
      const { ran } = server.serve(client);
      const wire = joinBytes(
        plans.flatMap((plan, index) => wireOf(plan, { client: number, index })),
      );
      const pieces = cutAt(wire, cuts.map((cut) => cut % wire.length));
      for (const [n, piece] of pieces.entries()) {
        client.deliver(piece);
        await turns(waits[n % waits.length] ?? 0);
      }
      let answers = readAnswers(client.text);
      for (let turn = 0; (answers?.length ?? 0) < plans.length; turn++) {
        assert.deepEqual(client.faults, []);
        assert.ok(turn < 300 && !client.closed, `stuck after ${answers?.length} answers`);
        await settle();
        answers = readAnswers(client.text);
      }
      assert.deepEqual(
        answers?.map(({ body }) => body),
        plans.map((plan, index) => answerOf(plan, index)),
      );
      await settle();
      client.deliver(null);
      await ran;
      assert.equal(client.closed, true);
      assert.deepEqual(client.faults, []);
    }));
    for (const { body, copy, request, number } of seen) {
      assert.equal(latin1(body), copy, "a body was written to later");
      assert.equal(request.header("x-index"), number, "a head was written to later");
      assert.equal(request.left, false);
    }
    assert.equal(server.active, 0);
    assert.equal(server.open.size, 0);
    assert.deepEqual(ends, ends.map(() => "done"));
    assert.equal(server.deadlines.size, 0);
    server.deadlines.close();
  },
  { runs: 100 },
);
