import assert from "node:assert/strict";
import { HubError } from "../../../src/core/error.ts";
import { createIdSource } from "../../../src/core/id.ts";
import type { AgentModelOptions } from "../../../src/http/agent_model/complete.ts";
import type { RequestFacts } from "../../../src/http/app.ts";
import { chatCompletionsRoute } from "../../../src/http/routes/chat_completions.ts";
import type { Answer } from "../../../src/router/open_answer.ts";
import type { AnswerCache } from "../../../src/run/response_cache.ts";
import { createFakeClock } from "../../support/fake_clock.ts";
import { createTestApp, deferred, randomBytes, USER, withServer } from "../fixture.ts";

const ids = createIdSource(() => 0, randomBytes);

/** The route over an answer that a test opens. */
const routeOf = (openAnswer: () => Promise<Answer>) =>
  chatCompletionsRoute({
    resolve: () => [],
    openAnswer,
    answers: { open: () => assert.fail("no request here has a key") },
    cache: { secondsFor: () => 0 } as unknown as AnswerCache,
    ui: { ids },
    keepaliveMs: 1000,
  }, {} as AgentModelOptions);

function answerOf(text: string, target = "one/m"): Answer {
  const pieces = [new TextEncoder().encode(text)];
  return {
    attempt: { target: { id: target }, passedHeaders: () => ({}) },
    attempts: [],
    read: () => Promise.resolve(pieces.shift() ?? null),
    cancel() {},
  } as unknown as Answer;
}

const post = (stream: boolean): RequestInit => ({
  method: "POST",
  headers: { authorization: `Bearer ${USER.token}`, "content-type": "application/json" },
  body: JSON.stringify({ model: "one/m", stream, messages: [] }),
});

Deno.test("time with the upstream is no overhead: answered in time, late, or not at all", async () => {
  const cases: [stream: boolean, waitMs: number][] = [[true, 400], [true, 3000], [false, 3000]];
  for (const [stream, waitMs] of cases) {
    for (const fails of [false, true]) {
      const clock = createFakeClock();
      const opened = deferred<Answer>();
      const facts: RequestFacts[] = [];
      const app = createTestApp([routeOf(() => opened.promise)], {
        clock,
        observe: (one) => facts.push(one),
      });
      const asked = app.request("/v1/chat/completions", post(stream));
      clock.setTimer(() => {
        if (fails) opened.promise.catch(() => {});
        opened.resolve(
          fails ? Promise.reject(new HubError("upstream_error", "Down")) as never : answerOf("{}"),
        );
      }, waitMs);
      await clock.advance(waitMs);
      const answer = await asked;
      await answer.text().catch(() => {});
      assert.equal(answer.headers.get("x-loophub-overhead-ms"), "0.00", `${stream} ${waitMs}`);
      assert.deepEqual(facts.map(({ overheadMs }) => overheadMs), [0]);
    }
  }
});

Deno.test("a target's name is a header of visible ASCII, whatever letters it has", async () => {
  const names = {
    "one/m-1:x@y": "one/m-1:x@y",
    "one/ä模型 %\n\ud800": "one/%C3%A4%E6%A8%A1%E5%9E%8B%20%25%0A%EF%BF%BD",
  };
  for (const [name, header] of Object.entries(names)) {
    await withServer([routeOf(() => Promise.resolve(answerOf("{}", name)))], async ({ url }) => {
      const answer = await fetch(`${url}/v1/chat/completions`, post(false));
      assert.equal(await answer.text(), "{}");
      assert.equal(answer.headers.get("x-loophub-target"), header);
    });
  }
});
