import assert from "node:assert/strict";
import fc from "fast-check";
import { rewriteChatRequest } from "../../../src/wire/openai_chat/rewrite_request.ts";
import { scanChatRequest } from "../../../src/wire/openai_chat/scan_request.ts";
import { property } from "../../support/property.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const USAGE = '"stream_options":{"include_usage":true},';

async function rewrite(text: string, model: string) {
  const body = encoder.encode(text);
  const rewritten = rewriteChatRequest(body, {
    scan: await scanChatRequest(body),
    model,
    streamOptions: true,
  });
  return { ...rewritten, text: decoder.decode(rewritten.body), given: body };
}

/** A text as JSON with every character as an escape. */
const escaped = (text: string) =>
  `"${
    Array.from(
      { length: text.length },
      (_, at) => `\\u${text.charCodeAt(at).toString(16).padStart(4, "0")}`,
    ).join("")
  }"`;

const space = fc.string({ unit: fc.constantFrom(" ", "\n", "\r", "\t"), maxLength: 3 });
/** Values that a parser and a writer would not give back as they were. */
const value = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }).map((one) => JSON.stringify(one, null, 1)),
  fc.string({ unit: "binary" }).map(escaped),
  fc.constantFrom(
    "1.0",
    "-0",
    "1e400",
    "12345678901234567890",
    "0.1000",
    '"\\/"',
    '"é"',
    '{"a":1,"a":2}',
    '{"model":"inner","stream":true}',
    '{"__proto__":{"x":1}}',
    "[ 1 , 2 ]",
  ),
);
const member = fc.tuple(space, fc.constantFrom("messages", "x", "tools", "__proto__"), space, value)
  .map(([before, name, after, text]) => `${before}"${name}"${after}:${before}${text}${after}`);
const members = fc.array(member, { maxLength: 4 });
const model = fc.string({ unit: "grapheme", minLength: 1 });

/** Requests in two pieces, before and behind the value of `model`. */
const request = fc.tuple(space, members, model, fc.boolean(), members, space).map(
  ([edge, before, name, isEscaped, behind, end]) => ({
    before: `${edge}{${before.map((one) => `${one},`).join("")}${end}"model"${edge}:${end}`,
    name,
    value: isEscaped ? escaped(name) : JSON.stringify(name),
    behind: `${end}${behind.map((one) => `,${one}`).join("")}}${edge}`,
  }),
);

property(
  "another model keeps every other byte",
  fc.tuple(request, model),
  async ([{ before, name, value, behind }, other]) => {
    const { text, given, body, hideUsage } = await rewrite(before + value + behind, other);
    assert.equal(hideUsage, false);
    if (other === name) assert.equal(body, given);
    else assert.equal(text, before + JSON.stringify(other) + behind);
  },
  { runs: 500 },
);

property(
  "usage that is asked for in a stream is one piece at the beginning of the object",
  fc.tuple(request, model),
  async ([{ before, value, behind }, other]) => {
    const rest = behind.trimEnd().slice(0, -1);
    const { text, hideUsage } = await rewrite(`${before}${value}${rest},"stream" : true}`, other);
    assert.equal(hideUsage, true);
    const at = before.indexOf("{") + 1;
    assert.equal(text.slice(at, at + USAGE.length), USAGE);
    const others = text.slice(0, at) + text.slice(at + USAGE.length);
    const { model } = await scanChatRequest(encoder.encode(`{"model":${value}}`));
    const wanted = model === other ? value : JSON.stringify(other);
    assert.equal(others, `${before}${wanted}${rest},"stream" : true}`);
    const { includeUsage } = await scanChatRequest(encoder.encode(text));
    assert.equal(includeUsage, true);
  },
);

property("the bytes given are never written to", fc.tuple(request, model), async ([one, other]) => {
  const text = one.before + one.value + one.behind;
  assert.deepEqual((await rewrite(text, other)).given, encoder.encode(text));
});

Deno.test("a request that needs no change is sent as it is, not as a copy", async () => {
  for (
    const text of [
      '{"model":"m"}',
      '{"model":"m","stream":false,"stream_options":null}',
      '{"model":"\\u006d"}',
      '{"stream_options":{"include_usage":false},"stream":true,"model":"m"}',
    ]
  ) {
    const { body, given, hideUsage } = await rewrite(text, "m");
    assert.equal(body, given);
    assert.equal(hideUsage, false);
  }
});

Deno.test("model and usage are set in either order", async () => {
  assert.equal(
    (await rewrite('{"stream_options":{ "x": 1},"model":"a","stream":true}', "b")).text,
    '{"stream_options":{"include_usage":true, "x": 1},"model":"b","stream":true}',
  );
  assert.equal(
    (await rewrite('{"model":"a","stream":true,"stream_options":{}}', "b")).text,
    '{"model":"b","stream":true,"stream_options":{"include_usage":true}}',
  );
});

Deno.test("names of models are written as JSON", async () => {
  const { text } = await rewrite('{"model":"a"}', 'q"uote\\ \n\u2028');
  assert.equal(JSON.parse(text).model, 'q"uote\\ \n\u2028');
});
