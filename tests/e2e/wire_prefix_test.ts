import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { startHubProcess } from "../support/hub_process.ts";
import { startTestPostgres } from "../support/postgres.ts";
import {
  chatStream,
  type RecordedRequest,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, startTestHub } from "../support/test_hub.ts";

const STEPS = 40;
/** The steps in which a person is asked, the hub is killed, and something is said to the run. */
const ASKS = 9;
const KILLED = 20;
const STEERED = 30;

/** Arguments as models write them: blanks, keys in any order, numbers in any form, escapes, halves of pairs. */
const ARGUMENTS = [
  `{ "zeta": 1, "a": {"yy": [], "b": {} },  "bb": 3.0 }`,
  `{"n":1e2,"minus":-0,"large":12345678901234567890,"tiny":1e-7,"e":1E+5}`,
  String
    .raw`{"text":"\u00fcber \/ \"quoted\" \t \u2028 \ud83d\ude00 \ud800 half","10":"a","9":"b"}`,
  `{"same":1,"other":2,"same":3}`,
  `{}`,
  "",
];

/** The pieces of a request that providers keep: in the order of the body, as its bytes stand. */
function piecesOf({ text, json }: RecordedRequest) {
  assert.equal(JSON.stringify(json), text, "what is cut out below is what was sent");
  const { messages, tools, ...rest } = json;
  return {
    messages: JSON.stringify(messages).slice(0, -1),
    tools: JSON.stringify(tools),
    rest: JSON.stringify(rest),
    keys: Object.keys(json),
  };
}

/** Fails where a request does not begin with the bytes of the one before it. */
function checkPrefixes(requests: readonly RecordedRequest[]): void {
  for (const [index, request] of requests.entries()) {
    const before = requests[index - 1];
    if (before === undefined) continue;
    const [a, b] = [piecesOf(before), piecesOf(request)];
    if (!b.messages.startsWith(a.messages)) {
      const at = [...a.messages].findIndex((_, at) => a.messages[at] !== b.messages[at]);
      const around = ({ messages }: typeof a) => messages.slice(Math.max(0, at - 80), at + 80);
      assert.equal(around(b), around(a), `request ${index} at ${at}`);
    }
    assert.deepEqual({ ...b, messages: "" }, { ...a, messages: "" }, `request ${index}`);
  }
}

Deno.test("each request begins with the bytes of the one before: over steps, a wait, a takeover, steering, the next run", async () => {
  const upstream = await startScriptedUpstream();
  const postgres = await startTestPostgres({ migrated: false });
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-prefix-" });
  const config: JsonObject = {
    providers: { one: { baseUrl: upstream.url, apiKey: "sk-upstream" } },
    defaultModel: "one/m",
    operations: {
      modules: ["echo", "long_list"].map((name) =>
        new URL(`../fixtures/operations/${name}.ts`, import.meta.url).pathname
      ),
    },
    agents: {
      default: {
        tools: ["test.*", "hub.wait", "hub.calculate"],
        maxSteps: 100,
        approvals: { ask: ["hub.wait"] },
      },
    },
    runs: { leaseMs: 5000, approvalTimeoutMs: 600_000 },
  };
  let key = "";
  const post = (url: string, path: string, body: JsonObject) =>
    fetch(url + path, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  let reached = 0;
  const gates = new Map<number, PromiseWithResolvers<void>>();
  upstream.script(async (request) => {
    const step = request.json["messages"] === undefined
      ? 0
      : request.messages.filter(({ role }) => role === "assistant").length;
    reached = Math.max(reached, step);
    await gates.get(step)?.promise;
    if (step >= STEPS) return chatStream({ text: "Done" });
    const echo = (at: number) => ({
      name: "test_echo",
      arguments: ARGUMENTS[(step + at) % ARGUMENTS.length] ?? "",
    });
    const more = step === ASKS
      ? [{ name: "hub_wait", arguments: { seconds: 0 } }]
      : step % 7 === 3
      ? [{ name: "test_gone", arguments: { step } }, {
        name: "test_long_list",
        arguments: { lines: "x" },
      }]
      : [{ name: "test_long_list", arguments: { lines: 3 + step } }];
    return chatStream({
      text: step % 3 === 0 ? "" : ` Step ${step}, “äöü” \u{1F600}\n`,
      reasoning: step % 4 === 0 ? "Let me think. " : "",
      toolCalls: [echo(0), ...more, echo(1)],
      ...step === KILLED && gates.has(-1) ? { endAfter: 5, end: "stall" as const } : {},
    });
  });
  try {
    await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
    const first = await startHubProcess(folder, { DATABASE_URL: postgres.url });
    let session: string;
    let runId: string;
    gates.set(-1, Promise.withResolvers());
    try {
      key = await eventually(() => first.key());
      session = (await (await post(first.url, "/v1/sessions", {})).json()).id;
      const answer = await post(first.url, `/v1/sessions/${session}/messages`, { text: "Go" });
      runId = answer.headers.get("x-loophub-run") ?? "";
      void answer.body?.cancel();
      const approval = await eventually(async () => {
        const path = `${first.url}/v1/runs/${runId}/approvals`;
        const reply = await fetch(path, { headers: { authorization: `Bearer ${key}` } });
        return (await reply.json()).data[0] ?? null;
      });
      const path = `/v1/runs/${runId}/approvals/${approval.id}`;
      await (await post(first.url, path, { approved: true })).body?.cancel();
      await eventually(() => reached >= KILLED ? true : null, 60_000);
    } finally {
      await first.end("SIGKILL");
    }
    gates.delete(-1);
    gates.set(STEERED, Promise.withResolvers());
    const options = { databaseUrl: postgres.url, dataDir: `${folder}/data`, key };
    const second = await startTestHub(config, options);
    try {
      await eventually(() => reached >= STEERED ? true : null, 60_000);
      const said = await second.call(`/v1/runs/${runId}/steer`, { body: { text: "Mind the gap" } });
      assert.equal(said.status, 202);
      await said.body?.cancel();
      gates.get(STEERED)?.resolve();
      await eventually(async () => {
        const { status } = await (await second.call(`/v1/runs/${runId}`)).json();
        return status === "completed" ? true : null;
      });
      const next = await second.call(`/v1/sessions/${session}/messages`, {
        body: { text: "And now?", stream: false },
      });
      assert.equal((await next.json()).run.finishReason, "stop");
    } finally {
      await second.close();
    }
    const { requests } = upstream;
    const steps = requests.map((one) =>
      one.messages.filter(({ role }) => role === "assistant").length
    );
    assert.deepEqual(steps.filter((step) => step === KILLED), [KILLED, KILLED]);
    assert.equal(requests.length, STEPS + 3);
    checkPrefixes(requests);
    const twice = requests.filter((_, index) => steps[index] === KILLED);
    assert.equal(
      twice[0]?.text,
      twice[1]?.text,
      "whoever takes over asks with the very same bytes",
    );
    const said = requests.at(-1)?.messages.filter(({ role }) => role === "user") ?? [];
    assert.deepEqual(said.map(({ content }) => content), ["Go", "Mind the gap", "And now?"]);
  } finally {
    await upstream.stop();
    await postgres.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
