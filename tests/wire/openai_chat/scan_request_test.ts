import assert from "node:assert/strict";
import fc from "fast-check";
import { rewriteChatRequest } from "../../../src/wire/openai_chat/rewrite_request.ts";
import { scanChatRequest } from "../../../src/wire/openai_chat/scan_request.ts";
import { MemberScan } from "../../../src/wire/member_scan.ts";
import { longestStretch } from "../../support/loop_watch.ts";
import { property } from "../../support/property.ts";
import { tookUnder } from "../../support/test_hub.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

const request = fc.record({
  model: fc.string({ minLength: 1 }),
  stream: fc.boolean(),
  more: fc.jsonValue({ maxDepth: 5 }),
  messages: fc.array(fc.jsonValue({ maxDepth: 4 })),
});

/** Whether this is a whole JSON text, by the runtime's own parser. */
function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

property("the scan reads what JSON.parse reads", request, async (value) => {
  const scan = await scanChatRequest(encoder.encode(JSON.stringify(value, null, 2)));
  assert.equal(scan.model, value.model);
  assert.equal(scan.stream, value.stream);
});

property(
  "a changed byte is refused exactly when JSON.parse refuses it",
  fc.tuple(request, fc.nat(), fc.constantFrom(...'{}[]",:0-.eE+\\u tfn\n\u0001a')),
  async ([value, place, letter]) => {
    const text = JSON.stringify({ ...value, stream: false });
    const at = place % text.length;
    const changed = text.slice(0, at) + letter + text.slice(at + 1);
    let refused = false;
    try {
      await scanChatRequest(encoder.encode(changed));
    } catch (error) {
      refused = (error as { code?: string }).code === "invalid_json";
    }
    if (isJson(changed) && JSON.parse(changed) !== null) assert.equal(refused, false, changed);
    if (!isJson(changed)) assert.equal(refused, true, changed);
  },
  { runs: 1000 },
);

property("a rewrite changes the model and adds usage, and nothing else", request, async (value) => {
  const body = encoder.encode(JSON.stringify(value));
  const scan = await scanChatRequest(body);
  const { body: sent, hideUsage } = rewriteChatRequest(body, {
    scan,
    model: "other",
    streamOptions: true,
  });
  assert.equal(hideUsage, value.stream);
  const wanted = { ...value, model: "other" };
  const got = JSON.parse(decoder.decode(sent));
  const { stream_options: options, ...rest } = got;
  assert.deepEqual(rest, JSON.parse(JSON.stringify(wanted)));
  assert.deepEqual(options, value.stream ? { include_usage: true } : undefined);
});

Deno.test("stream options of the client stay, and get what they lack", async () => {
  const sent = async (options: string, streamOptions = true) => {
    const body = encoder.encode(`{"model":"m","stream":true,"stream_options":${options}}`);
    const scan = await scanChatRequest(body);
    const rewritten = rewriteChatRequest(body, { scan, model: "m", streamOptions });
    return [decoder.decode(rewritten.body).slice(44), rewritten.hideUsage];
  };
  assert.deepEqual(await sent('{"include_usage":true}'), ['{"include_usage":true}}', false]);
  assert.deepEqual(await sent('{"include_usage":false}'), ['{"include_usage":false}}', false]);
  assert.deepEqual(await sent('{"include_usage":null}'), ['{"include_usage":null}}', false]);
  assert.deepEqual(await sent("{ }"), ['{"include_usage":true }}', true]);
  assert.deepEqual(await sent('{"x":1}'), ['{"include_usage":true,"x":1}}', true]);
  assert.deepEqual(await sent("null"), ['{"include_usage":true}}', true]);
  for (const options of ['{"include_usage":true}', "{ }", "null"]) {
    assert.deepEqual(await sent(options, false), [`${options}}`, false]);
  }
});

Deno.test("the number of choices is read, and 1 when it is none", async () => {
  const choices = async (n: string) =>
    (await scanChatRequest(encoder.encode(`{"model":"m","n":${n}}`))).choices;
  const counts = ["3", "1", "0", "-2", "1.5", "1e999", '"4"', "null"];
  assert.deepEqual(await Promise.all(counts.map(choices)), [
    3,
    ...Array.from({ length: 7 }, () => 1),
  ]);
});

Deno.test("names that come twice, other types and depth are told", async () => {
  const scan = (text: string) => () => scanChatRequest(encoder.encode(text));
  await assert.rejects(scan('{"model":"a","model":"b"}'), /twice/);
  await assert.rejects(scan('{"model":"a","\\u006dodel":"b"}'), /twice/);
  await assert.rejects(scan('{"model":""}'), /name of a model/);
  await assert.rejects(scan('{"model":"a","stream":"yes"}'), /a boolean/);
  await assert.rejects(scan(`{"model":"a","x":${"[".repeat(64)}${"]".repeat(64)}}`), /levels deep/);
  await assert.rejects(scan('{"model":"a"} x'), /at byte 14/);
  await assert.rejects(scan("\ufeff{}"), { code: "invalid_json" });
});

property(
  "a request is scanned the same, wherever the event loop turns",
  fc.tuple(request, fc.integer({ min: 1, max: 9 })),
  async ([value, stretchBytes]) => {
    const bytes = encoder.encode(JSON.stringify(value, null, 1));
    const membersOf = async (scan: (scanner: MemberScan) => Promise<void> | void) => {
      const members: unknown[] = [];
      const scanner = new MemberScan(
        bytes,
        (key, span) => members.push([key, scanner.parse(span)]),
      );
      await scan(scanner);
      return members;
    };
    const members = await membersOf((scanner) => scanner.scanInSteps(stretchBytes));
    assert.deepEqual(members, await membersOf((scanner) => scanner.scan()));
    assert.deepEqual(members, Object.entries(JSON.parse(JSON.stringify(value))));
  },
);

for (
  const [name, hostile] of Object.entries({
    "one text": () => `{"a":"${"x".repeat(30_000_000)}"}`,
    "a name": () => `{"${"x".repeat(30_000_000)}":1}`,
    "escapes": () => `{"a":"${"\\u0041".repeat(5_000_000)}"}`,
    "space": () => `{"a":${" ".repeat(30_000_000)}1}`,
    "many values": () => `{"a":[${"0,".repeat(990_000)}0]}`,
  })
) {
  Deno.test(`MemberScan lets others have their turn: ${name}`, async () => {
    const bytes = encoder.encode(hostile());
    await tookUnder(50, () => longestStretch(() => new MemberScan(bytes, () => {}).scanInSteps()));
  });
}
