import assert from "node:assert/strict";
import OpenAI from "openai";
import type { ProviderKind } from "../../src/config/known_providers.ts";
import {
  type RecordedRequest,
  type Reply,
  type ReplyEnd,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, type TestHub, withHub } from "../support/test_hub.ts";

/** An answer, in no dialect. */
export interface ContractAnswer {
  /** Text in deltas. */
  text?: string[];
  reasoning?: string;
  calls?: { name: string; arguments: Record<string, unknown> }[];
  usage?: { prompt: number; completion: number };
  finish?: "stop" | "length";
}

/** How one dialect says what the contract needs. */
export interface DialectFixture {
  kind: ProviderKind;
  /** The provider's base URL over an upstream at this origin. */
  baseUrl(origin: string): string;
  /** Path of a request for model `m`, streamed or not. */
  path(stream: boolean): string;
  /** The header field that carries key `sk-up`, and its value. */
  credential: [name: string, value: string];
  streamType: string;
  /** A whole answer's body. */
  whole(answer: ContractAnswer): object;
  /** A stream's frames, end mark included; the first with content is `frames[before]`. */
  frames(answer: ContractAnswer): { frames: string[]; before: number };
  /** A frame that is broken. */
  malformed: string;
  /** An error inside a stream. */
  errorFrame(message: string): string;
  errorBody(status: number, message: string): unknown;
  /** What is said of a prompt that is too long, with its status. */
  tooLong: { status: number; body: object };
  /** The results of tools in a request, in order, as text. */
  resultsIn(request: RecordedRequest): string[];
  /** What the results of failed tools say, in order; in the dialect's own way of saying that they failed. */
  failuresIn(request: RecordedRequest): string[];
  /** A signature that must come back with the first call of the answer before; null where there is none. */
  signature: string | null;
}

const CALLS = [
  { name: "hub_calculate", arguments: { expression: "6*7" } },
  { name: "hub_current_time", arguments: { timeZone: null } },
];
const USAGE = { prompt: 12, completion: 7 };
const HELLO: ContractAnswer = { text: ["Hel", "lo ", "👋🏽 é"], usage: USAGE };
const messages = [{ role: "user" as const, content: "Hi" }];
const tools = CALLS.map(({ name }) => ({
  type: "function" as const,
  function: { name, parameters: { type: "object", properties: {} } },
}));

/** Registers the tests that every dialect must pass, through the real hub. */
export function testDialect(fixture: DialectFixture): void {
  Deno.test(`${fixture.kind} keeps the contract of dialects`, async (t) => {
    const upstream = await startScriptedUpstream();
    const origin = new URL(upstream.url).origin;
    const config = {
      providers: {
        up: {
          kind: fixture.kind,
          baseUrl: fixture.baseUrl(origin),
          apiKey: "sk-up",
          maxRetries: 0,
        },
      },
      models: { fast: { targets: ["up/m"] } },
      defaultModel: "up/m",
    };
    try {
      await withHub(config, async (hub) => {
        const client = new OpenAI({
          apiKey: hub.key,
          baseURL: `${hub.url}/v1`,
          maxRetries: 0,
        });
        await answers(t, { fixture, upstream, client });
        await faults(t, { fixture, upstream, client });
        await refusals(t, { upstream, client, hub });
        await agents(t, { fixture, upstream, hub });
      });
    } finally {
      await upstream.stop();
    }
  });
}

interface Rig {
  fixture: DialectFixture;
  upstream: ScriptedUpstream;
  client: OpenAI;
}

const streamOf = (
  fixture: DialectFixture,
  frames: readonly (string | Uint8Array)[],
  end: ReplyEnd = "clean",
): Reply => ({ headers: { "content-type": fixture.streamType }, frames, end });

const wholeOf = ({ whole }: DialectFixture, answer: ContractAnswer): Reply => ({
  headers: { "content-type": "application/json" },
  body: whole(answer),
});

/** A stream cut into pieces of this many bytes, wherever that is. */
function sliced(fixture: DialectFixture, answer: ContractAnswer, size: number): Reply {
  const bytes = new TextEncoder().encode(fixture.frames(answer).frames.join(""));
  const pieces = [];
  for (let at = 0; at < bytes.length; at += size) pieces.push(bytes.slice(at, at + size));
  return streamOf(fixture, pieces);
}

const ask = (client: OpenAI) => client.chat.completions.create({ model: "up/m", messages, tools });

/** What a streamed answer says in the end; throws when it breaks. */
async function stream(client: OpenAI) {
  const seen = { text: "", reasoning: "", reason: "", chunks: 0, usage: 0, prompt: 0 };
  const calls: { id: string; name: string; arguments: string }[] = [];
  const answer = await client.chat.completions.create({
    model: "up/m",
    messages,
    tools,
    stream: true,
    stream_options: { include_usage: true },
  });
  const roles: unknown[] = [];
  for await (const chunk of answer) {
    seen.chunks++;
    if (chunk.usage) {
      assert.deepEqual(chunk.choices, []);
      seen.usage++;
      seen.prompt = chunk.usage.prompt_tokens;
    }
    const [choice] = chunk.choices;
    if (choice === undefined) continue;
    if (choice.delta.role !== undefined) roles.push([choice.delta.role, seen.chunks]);
    seen.text += choice.delta.content ?? "";
    const { reasoning_content: thought } = choice.delta as { reasoning_content?: string };
    seen.reasoning += thought ?? "";
    seen.reason = choice.finish_reason ?? seen.reason;
    for (const delta of choice.delta.tool_calls ?? []) {
      const call = calls[delta.index];
      if (call === undefined) {
        assert.equal(delta.type, "function");
        assert.ok(delta.id, "the first delta of a call has its id");
        calls[delta.index] = {
          id: delta.id,
          name: delta.function?.name ?? "",
          arguments: delta.function?.arguments ?? "",
        };
      } else {
        assert.deepEqual([delta.id, delta.function?.name], [undefined, undefined]);
        call.arguments += delta.function?.arguments ?? "";
      }
    }
  }
  assert.deepEqual(roles, [["assistant", 1]], "the role comes once, in the first delta");
  return { ...seen, calls };
}

const toCalls = (list: { name: string; arguments: string }[]) =>
  list.map((call) => ({ name: call.name, arguments: JSON.parse(call.arguments) }));

async function answers(t: Deno.TestContext, { fixture, upstream, client }: Rig) {
  await t.step("a whole answer, asked natively with the provider's own key", async () => {
    upstream.script(wholeOf(fixture, { ...HELLO, reasoning: "Well" }));
    const answer = await ask(client);
    const [choice] = answer.choices;
    assert.equal(choice?.message.content, "Hello 👋🏽 é");
    assert.equal((choice?.message as { reasoning_content?: string }).reasoning_content, "Well");
    assert.equal(choice?.finish_reason, "stop");
    assert.equal(answer.usage?.prompt_tokens, USAGE.prompt);
    assert.equal(answer.usage?.completion_tokens, USAGE.completion);
    assert.equal(answer.object, "chat.completion");
    assert.ok(answer.id);
    const request = upstream.requests.at(-1);
    const [name, value] = fixture.credential;
    assert.equal(request?.path, fixture.path(false));
    assert.equal(request?.header(name), value);
    assert.equal(request?.header("content-type"), "application/json");
  });

  for (const size of [1, 7, 10_000]) {
    await t.step(`a streamed answer in pieces of ${size} bytes`, async () => {
      upstream.script(sliced(fixture, { ...HELLO, reasoning: "Well, well" }, size));
      const seen = await stream(client);
      assert.equal(seen.text, "Hello 👋🏽 é");
      assert.equal(seen.reasoning, "Well, well");
      assert.deepEqual([seen.reason, seen.usage, seen.prompt], ["stop", 1, USAGE.prompt]);
      assert.equal(upstream.requests.at(-1)?.path, fixture.path(true));
    });
    await t.step(`parallel calls in pieces of ${size} bytes`, async () => {
      upstream.script(sliced(fixture, { text: ["Let me see"], calls: CALLS, usage: USAGE }, size));
      const seen = await stream(client);
      assert.equal(seen.text, "Let me see");
      assert.deepEqual(toCalls(seen.calls), CALLS);
      assert.equal(new Set(seen.calls.map(({ id }) => id)).size, 2);
      assert.equal(seen.reason, "tool_calls");
    });
  }

  await t.step("parallel calls in a whole answer", async () => {
    upstream.script(wholeOf(fixture, { calls: CALLS, usage: USAGE }));
    const [choice] = (await ask(client)).choices;
    assert.equal(choice?.finish_reason, "tool_calls");
    assert.equal(choice?.message.content, null);
    const calls = choice?.message.tool_calls ?? [];
    assert.deepEqual(
      toCalls(calls.map((call) => call.type === "function" ? call.function : never())),
      CALLS,
    );
    assert.equal(new Set(calls.map(({ id }) => id)).size, 2);
  });

  await t.step("an empty answer, and one that reached its bound", async () => {
    upstream.script(wholeOf(fixture, { usage: USAGE }));
    assert.equal((await ask(client)).choices[0]?.message.content, "");
    upstream.script(streamOf(fixture, fixture.frames({ usage: USAGE }).frames));
    assert.deepEqual((await stream(client)).reason, "stop");
    upstream.script(streamOf(fixture, fixture.frames({ ...HELLO, finish: "length" }).frames));
    assert.deepEqual((await stream(client)).reason, "length");
  });

  await t.step("usage that is missing is left out", async () => {
    upstream.script(wholeOf(fixture, { text: ["x"] }));
    assert.equal((await ask(client)).usage, undefined);
    upstream.script(streamOf(fixture, fixture.frames({ text: ["x"] }).frames));
    assert.deepEqual((await stream(client)).usage, 0);
  });

  await t.step("usage is not shown to who did not ask for it", async () => {
    upstream.script(streamOf(fixture, fixture.frames(HELLO).frames));
    const answer = await client.chat.completions.create({ model: "up/m", messages, stream: true });
    for await (const chunk of answer) assert.ok(chunk.choices.length > 0 && !chunk.usage);
  });

  await t.step("malformed frames are passed over", async () => {
    const { frames, before } = fixture.frames(HELLO);
    const { malformed } = fixture;
    for (const at of [before, before + 1]) {
      upstream.script(streamOf(fixture, frames.toSpliced(at, 0, malformed)));
      assert.equal((await stream(client)).text, "Hello 👋🏽 é");
    }
  });
}

function never(): never {
  throw new Error("not a function");
}

async function faults(t: Deno.TestContext, { fixture, upstream, client }: Rig) {
  const fails = async (reply: Reply, wanted: { status: number; code?: string }) => {
    for (const call of [() => ask(client), () => stream(client)]) {
      upstream.script(reply);
      await assert.rejects(call(), (error) => {
        assert.ok(error instanceof OpenAI.APIError, String(error));
        assert.equal(error.status, wanted.status);
        if (wanted.code !== undefined) assert.equal(error.code, wanted.code);
        return true;
      });
    }
  };
  const errorOf = (status: number): Reply => ({
    status,
    headers: { "content-type": "application/json" },
    body: JSON.stringify(fixture.errorBody(status, "No way today")),
  });

  for (const [status, wanted] of [[429, 429], [500, 500], [503, 503], [401, 502], [404, 404]]) {
    await t.step(
      `an error with status ${status}`,
      () => fails(errorOf(status as number), { status: wanted as number }),
    );
  }

  await t.step("an error of the request says what the provider said", async () => {
    upstream.script(errorOf(400));
    await assert.rejects(ask(client), /No way today/);
  });

  await t.step(
    "a prompt that is too long is known as such",
    () =>
      fails({ status: fixture.tooLong.status, body: fixture.tooLong.body }, {
        status: 400,
        code: "context_length_exceeded",
      }),
  );

  await t.step("a body that is no answer", () =>
    fails(
      { headers: { "content-type": "application/json" }, body: '{"what":' },
      { status: 502 },
    ));

  const { frames, before } = fixture.frames(HELLO);
  const broken: [string, Reply, Reply][] = [
    ...(["clean", "cut", "reset"] as const).map((end): [string, Reply, Reply] => [
      `a stream that ends early (${end})`,
      streamOf(fixture, frames.slice(0, before), end),
      streamOf(fixture, frames.slice(0, before + 2), end),
    ]),
    [
      "half a frame",
      streamOf(fixture, [...frames.slice(0, before), frames[before]?.slice(0, 9) ?? ""]),
      streamOf(fixture, [...frames.slice(0, before + 1), frames[before]?.slice(0, 9) ?? ""]),
    ],
    [
      "an error inside the stream",
      streamOf(fixture, [...frames.slice(0, before), fixture.errorFrame("Oh no")]),
      streamOf(fixture, [...frames.slice(0, before + 2), fixture.errorFrame("Oh no")]),
    ],
  ];
  for (const [name, early, late] of broken) {
    await t.step(`${name}, before content: a status`, async () => {
      upstream.script(early);
      await assert.rejects(stream(client), (error) => {
        assert.ok(error instanceof OpenAI.APIError, String(error));
        assert.equal(error.status, 502);
        return true;
      });
    });
    await t.step(`${name}, after content: the stream breaks`, async () => {
      upstream.script(late);
      await assert.rejects(stream(client));
    });
  }

  await t.step("a client that leaves in mid-stream stops the provider", async () => {
    upstream.script(streamOf(fixture, frames.slice(0, before + 1), "stall"));
    const before_ = upstream.closedByClient.length;
    const answer = await client.chat.completions.create({ model: "up/m", messages, stream: true });
    for await (const chunk of answer) if (chunk.choices[0]?.delta.content) break;
    await upstream.until(() => upstream.closedByClient.length > before_);
  });
}

async function refusals(
  t: Deno.TestContext,
  { upstream, client, hub }: Omit<Rig, "fixture"> & { hub: TestHub },
) {
  await t.step(
    "what the dialect cannot carry is refused by name, and nobody is asked",
    async () => {
      const { length } = upstream.requests;
      const rows = async () =>
        (await hub.hub.start.db.read<{ id: unknown }[]>`select request_id from hub.usage
        where error_code = 'invalid_request'`).length;
      for (const stream of [false, true]) {
        const create = client.chat.completions.create({
          model: "up/m",
          messages,
          stream,
          logit_bias: { "1": 5 },
        });
        await assert.rejects(create, (error) => {
          assert.ok(error instanceof OpenAI.APIError, String(error));
          assert.deepEqual([error.status, error.param], [400, "logit_bias"]);
          return true;
        });
      }
      assert.equal(upstream.requests.length, length);
      // Rows are written in order: once that of a later request is there, an earlier one would be too.
      const before = await rows();
      upstream.script({ status: 404, body: {} });
      await assert.rejects(ask(client));
      await eventually(async () => {
        const [last] = await hub.hub.start.db.read<{ status: number | null }[]>`
        select status from hub.usage order by started_at desc limit 1`;
        return last?.status === 404 ? true : null;
      });
      assert.deepEqual([before, await rows()], [0, 0]);
    },
  );
}

async function agents(
  t: Deno.TestContext,
  { fixture, upstream, hub }: Omit<Rig, "client"> & { hub: TestHub },
) {
  await t.step("an agent calls two tools in parallel and answers", async () => {
    const from = upstream.requests.length;
    const usage = USAGE;
    upstream.script([
      streamOf(fixture, fixture.frames({ reasoning: "Two things", calls: CALLS, usage }).frames),
      streamOf(fixture, fixture.frames({ text: ["It is ", "42"], usage }).frames),
    ]);
    const session = await (await hub.call("/v1/sessions", { body: {} })).json();
    const said = await hub.call(`/v1/sessions/${session.id}/messages`, {
      body: { text: "What is 6*7, and when?" },
    });
    assert.ok(said.ok, await said.clone().text());
    await said.text();
    await eventually(() => Promise.resolve(upstream.requests.length >= from + 2 ? true : null));
    const text = await eventually(async () => {
      const list = await (await hub.call(`/v1/sessions/${session.id}/messages`)).text();
      return list.includes("It is 42") ? list : null;
    });
    assert.match(text, /Two things/);
    const second = upstream.requests[from + 1];
    assert.ok(second !== undefined);
    const results = fixture.resultsIn(second);
    assert.equal(results.length, 2);
    assert.match(results[0] ?? "", /42/);
    assert.match(results[1] ?? "", /unixSeconds/);
    if (fixture.signature !== null) assert.ok(second.text.includes(fixture.signature));
  });

  await t.step("an agent's model is told which tools failed, now and in later turns", async () => {
    const from = upstream.requests.length;
    const calls = [
      { name: "hub_calculate", arguments: { expression: "1/0" } },
      { name: "hub_calculate", arguments: { expression: "6*7" } },
      { name: "hub_nothing", arguments: {} },
    ];
    upstream.script([
      streamOf(fixture, fixture.frames({ calls, usage: USAGE }).frames),
      streamOf(fixture, fixture.frames({ text: ["I see"], usage: USAGE }).frames),
      streamOf(fixture, fixture.frames({ text: ["Yes"], usage: USAGE }).frames),
    ]);
    const { id } = await (await hub.call("/v1/sessions", { body: {} })).json();
    const say = (text: string) =>
      hub.call(`/v1/sessions/${id}/messages`, { body: { text, stream: false } });
    for (const text of ["What is 1/0?", "Really?"]) {
      const { run } = await (await say(text)).json();
      assert.equal(run?.finishReason, "stop");
    }
    assert.equal(upstream.requests.length, from + 3);
    for (const request of upstream.requests.slice(from + 1)) {
      const [divided, unknown, ...more] = fixture.failuresIn(request);
      assert.match(divided ?? "", /^Division by zero/);
      assert.match(unknown ?? "", /hub_nothing/);
      assert.deepEqual(more, []);
    }
  });
}
