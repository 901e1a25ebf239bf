import assert from "node:assert/strict";
import {
  chatError,
  chatStream,
  type Frame,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, type TestHub, withHub } from "../support/test_hub.ts";

/** Says something in a session of its own and waits for the whole answer. */
async function ask(hub: TestHub, more: { id?: string; session?: string } = {}) {
  const { session: given, ...rest } = more;
  const session = given ?? (await (await hub.call("/v1/sessions", { body: {} })).json()).id;
  const answer = await hub.call(`/v1/sessions/${session}/messages`, {
    body: { text: "Hi", stream: false, ...rest },
  });
  const value = await answer.json();
  return { session, status: answer.status, headers: answer.headers, value };
}

Deno.test("stream: false answers with the status of what became of the run", async (t) => {
  const upstream = await startScriptedUpstream();
  const config = {
    providers: { up: { baseUrl: upstream.url, apiKey: "sk-up" } },
    defaultModel: "up/m",
  };
  try {
    await withHub(config, async (hub) => {
      const { db } = hub.hub.start;

      await t.step(
        "a run that failed is an error with its code, and no retry can heal it",
        async () => {
          const cases: [reply: ReturnType<typeof chatError>, status: number, code: string][] = [
            [chatError(401, { code: "invalid_api_key" }), 502, "upstream_unauthorized"],
            [chatError(422, { code: "bad_tools", message: "No such tools" }), 400, "bad_tools"],
            [chatError(400, { code: "invalid_api_key" }), 400, "invalid_api_key"],
            [chatError(400, { code: "context_length_exceeded" }), 400, "context_overflow"],
          ];
          for (const [reply, status, code] of cases) {
            upstream.script(() => reply);
            const answer = await ask(hub, { id: "m" });
            assert.equal(answer.status, status, code);
            assert.equal(answer.value.error.code, code);
            assert.equal(answer.headers.get("x-should-retry"), "false");
            const runId = answer.headers.get("x-loophub-run");
            const run = await (await hub.call(`/v1/runs/${runId}`)).json();
            assert.equal(run.status, "failed");
            assert.equal(run.error.message, answer.value.error.message);
            const again = await ask(hub, { id: "m", session: answer.session });
            assert.deepEqual([again.status, again.value], [status, answer.value]);
          }
        },
      );

      await t.step(
        "a run that is taken over is waited for",
        async () => {
          const gate = Promise.withResolvers<void>();
          const whole = chatStream({ text: "Hi" });
          const [first = "", second = "", ...rest] = [...(whole.frames ?? []) as Iterable<Frame>];
          upstream.script([
            { ...whole, frames: [first, second, { wait: gate.promise }, ...rest] },
            chatStream({ text: "Hi again" }),
          ]);
          const session = (await (await hub.call("/v1/sessions", { body: {} })).json()).id;
          const asked = ask(hub, { session, id: "m" });
          await eventually(async () => {
            const rows = await db.control`update hub.runs
              set lease_epoch = lease_epoch + 1, lease_owner = null, lease_until = null
              where status = 'running' and last_seq > 0 returning 1`;
            return rows.length === 1 ? true : null;
          });
          gate.resolve();
          const { status, value, headers } = await asked;
          assert.equal(status, 200);
          assert.equal(value.message.parts.at(-1).text, "Hi again");
          assert.equal(value.run.status, "completed");
          assert.equal(headers.get("x-loophub-run"), value.run.id);
        },
      );
    });
  } finally {
    await upstream.stop();
  }
});
