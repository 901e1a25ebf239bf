import assert from "node:assert/strict";
import type { AskedHub } from "../../../src/cli/ask_hub.ts";
import { followEvents } from "../../../src/cli/chat/follow_events.ts";
import { fillIn } from "../../../src/cli/chat/forms.ts";
import { Talk } from "../../../src/cli/chat/talk.ts";
import type { Terminal } from "../../../src/cli/chat/terminal.ts";
import { createFakeClock, settle } from "../../support/fake_clock.ts";

const clock = createFakeClock();
const terminal: Terminal = {
  isInteractive: true,
  next: () => Promise.resolve(null),
  printRaw() {},
  printError() {},
  close() {},
};

/** A hub whose answers stand ready by path; each request is written down. */
function hubOf(answer: (path: string, asked: number) => Response | Promise<Response>) {
  const asked: [path: string, text: unknown][] = [];
  const hub: AskedHub = {
    name: "the hub",
    async send(path, init = {}) {
      const body = typeof init.body === "string" ? JSON.parse(init.body) : {};
      asked.push([path, body.text]);
      return await answer(path, asked.length);
    },
  };
  return { hub, asked };
}

function talkWith(hub: AskedHub) {
  const { signal } = new AbortController();
  const command = () => Promise.resolve(false);
  const options = { hub, terminal, clock, signal, command, nextId: () => "id", extra: {} };
  return new Talk(options, { sessionId: null, agent: null });
}

/** The stream of a run that goes on until it is told to end. */
function runStream() {
  const { readable, writable } = new TransformStream<Uint8Array<ArrayBuffer>>();
  const writer = writable.getWriter();
  const answer = new Response(readable, { headers: { "x-loophub-run": "run_1" } });
  const end = async () => {
    await writer.write(new TextEncoder().encode("data: [DONE]\n\n"));
    await writer.close();
  };
  return { answer, end };
}

Deno.test("what is typed before the first message is answered is said to its run, in order", async () => {
  const made = Promise.withResolvers<Response>();
  const { answer, end } = runStream();
  const { hub, asked } = hubOf((path) =>
    path === "/v1/sessions" ? made.promise : path.endsWith("/steer") ? Response.json({}) : answer
  );
  const talk = talkWith(hub);
  const said = ["one", "two", "three"].map((text) => talk.say(text));
  await settle();
  assert.equal(talk.isBusy, true);
  made.resolve(Response.json({ id: "ses_1" }));
  assert.deepEqual(await Promise.all(said.slice(1)), [0, 0]);
  await end();
  await said[0];
  assert.deepEqual(asked, [
    ["/v1/sessions", undefined],
    ["/v1/sessions/ses_1/messages", "one"],
    ["/v1/runs/run_1/steer", "two"],
    ["/v1/runs/run_1/steer", "three"],
  ]);
  assert.equal(talk.isBusy, false);
});

Deno.test("where the first message is refused, the next one is said for itself", async () => {
  const { answer, end } = runStream();
  const { hub, asked } = hubOf((path, count) =>
    path === "/v1/sessions"
      ? Response.json({ id: "ses_1" })
      : count === 2
      ? Response.json({ error: { message: "Too much" } }, { status: 400 })
      : answer
  );
  const talk = talkWith(hub);
  const first = talk.say("one");
  const second = talk.say("two");
  await assert.rejects(first, /400: Too much/);
  await end();
  await second;
  assert.deepEqual(asked.map(([path, text]) => [path.split("/").at(-1), text]), [
    ["sessions", undefined],
    ["messages", "one"],
    ["messages", "two"],
  ]);
});

Deno.test("a hub that is busy is asked again when it says so, and no more than so often", async () => {
  const busy = (status: number, after: string) =>
    Response.json({ error: { message: "Busy" } }, { status, headers: { "retry-after": after } });
  const { answer, end } = runStream();
  const answers = [busy(429, "7"), busy(408, ""), busy(503, "100000"), answer];
  const { hub, asked } = hubOf((_, count) => answers[count - 1] ?? busy(429, "1"));
  const { signal } = new AbortController();
  const follow = () => followEvents(hub, { runId: "r", first: null, clock, signal, onBreak() {} });
  const following = follow().next();
  for (const waitMs of [7000, 500, 60_000]) {
    await settle();
    const before = asked.length;
    await clock.advance(waitMs - 1);
    assert.equal(asked.length, before);
    await clock.advance(1);
    assert.equal(asked.length, before + 1);
  }
  await end();
  assert.deepEqual(await following, { done: true, value: undefined });

  const givenUp = follow().next();
  let failure: unknown;
  givenUp.catch((error: unknown) => failure = error);
  for (let tries = 0; failure === undefined && tries < 20; tries++) await clock.advance(5000);
  assert.match(String(failure), /answered 429: Busy/);
  assert.equal(asked.length, 4 + 16);
});

Deno.test("fields whose values are secret are asked for as such", async () => {
  const asked: [string, boolean][] = [];
  const properties = {
    name: { type: "string" },
    password: { type: "string" },
    pin: { type: "string", format: "password" },
  };
  const content = await fillIn({ type: "object", properties }, (prompt, { isSecret }) => {
    asked.push([prompt.split(" ")[0] ?? "", isSecret]);
    return Promise.resolve("x");
  });
  assert.deepEqual(content, { name: "x", password: "x", pin: "x" });
  assert.deepEqual(asked, [["name", false], ["password", true], ["pin", true]]);
});
