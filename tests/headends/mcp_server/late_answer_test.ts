import assert from "node:assert/strict";
import { toResponse } from "../../../src/http/reply.ts";
import { Reply } from "../../../src/http/reply.ts";
import { answerOrStream } from "../../../src/headends/mcp_server/late_answer.ts";
import { createFakeClock, settle } from "../../support/fake_clock.ts";

const WAIT_MS = 1000;

function wait() {
  const clock = createFakeClock();
  const { promise: answer, resolve, reject } = Promise.withResolvers<Response>();
  const given = answerOrStream({ answer, waitMs: WAIT_MS, clock });
  return { clock, resolve, reject, given };
}

Deno.test("an answer in time is itself, with its status", async () => {
  const { clock, resolve, given } = wait();
  await clock.advance(WAIT_MS - 1);
  const response = new Response("no", { status: 400 });
  resolve(response);
  assert.equal(await given, response);
  assert.equal(clock.pending(), 0);
});

Deno.test("a late answer comes as an event, behind comments", async () => {
  const { clock, resolve, given } = wait();
  await clock.advance(WAIT_MS);
  const reply = await given;
  assert.ok(reply instanceof Reply);
  const response = toResponse(reply);
  assert.match(response.headers.get("content-type") ?? "", /^text\/event-stream/);
  const reader = (response.body ?? assert.fail()).pipeThrough(new TextDecoderStream()).getReader();
  const next = async () => (await reader.read()).value;
  assert.equal(await next(), ": open\n\n");
  const ping = next();
  await settle();
  await clock.advance(WAIT_MS);
  assert.equal(await ping, ": ping\n\n");
  resolve(new Response('{"a":\n1}'));
  assert.equal(await next(), 'event: message\ndata: {"a": 1}\n\n');
  assert.equal(await next(), undefined);
  assert.equal(clock.pending(), 0);
});

Deno.test("a late stream goes on in the one that was begun, and a failure breaks it", async () => {
  const { clock, resolve, given } = wait();
  await clock.advance(WAIT_MS);
  const events = new Response("data: 1\n\ndata: 2\n\n", {
    headers: { "content-type": "text/event-stream" },
  });
  resolve(events);
  const text = await toResponse(await given as Reply).text();
  assert.equal(text, ": open\n\ndata: 1\n\ndata: 2\n\n");

  const failing = wait();
  await failing.clock.advance(WAIT_MS);
  const reply = await failing.given as Reply;
  failing.reject(new Error("gone"));
  await assert.rejects(toResponse(reply).text(), /gone/);
});
