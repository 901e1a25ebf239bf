import assert from "node:assert/strict";
import { isSoundStream } from "../../src/wire/sound_stream.ts";

Deno.test("a stream is sound when all of its events can be read", () => {
  const cases: [text: string, sound: boolean][] = [
    ["", true],
    ['data: {"a":1}\n\ndata: [DONE]\n\n', true],
    ['event: x\r\ndata: {"a":\r\ndata: 1}\r\n\r\n', true],
    [": a comment\n\ndata: 1\n\n", true],
    ['data: {"a":1\n\n', false],
    ["data: hello\n\n", false],
    ['data: {"a":1}\n\ndata: {"b"', false],
    ['data: {"a":1}', false],
  ];
  for (const [text, sound] of cases) {
    assert.equal(isSoundStream(new TextEncoder().encode(text)), sound, JSON.stringify(text));
  }
});
