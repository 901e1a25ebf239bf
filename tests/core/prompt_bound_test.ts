import assert from "node:assert/strict";
import { encode } from "gpt-tokenizer/encoding/o200k_base";
import { boundPromptTokens } from "../../src/core/prompt_bound.ts";

const bytesOf = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

Deno.test("a request's text has no more tokens than it is taken for: prose, JSON, code, other scripts", () => {
  const rows = Array.from({ length: 200 }, (_, id) => ({ id, price: id / 7, done: id % 2 === 0 }));
  const texts = [
    "The weather is fine today and so are we. ".repeat(40),
    JSON.stringify(rows),
    "for (let at = 0; at < list.length; at++) { sum += list[at] ?? 0; }\n".repeat(30),
    "Погода сегодня хорошая, и мы тоже. ".repeat(30),
    "今天天气很好，我们也很好。".repeat(30),
  ];
  for (const text of texts) {
    const bound = boundPromptTokens(bytesOf({ messages: [{ role: "user", content: text }] }));
    assert.ok(bound >= encode(text).length, `${bound} for ${text.slice(0, 40)}`);
  }
});

Deno.test("files in base64 count half of what text does, wherever their strings begin", () => {
  for (const size of [900, 3000, 100_000]) {
    const data = new Uint8Array(size).map((_, at) => at * at % 251).toBase64();
    for (const text of [data, `data:image/png;base64,${data}`]) {
      for (let shift = 0; shift < 1100; shift += 100) {
        const body = bytesOf({
          pad: "word ".repeat(shift / 5),
          url: text,
          more: "x y ".repeat(20),
        });
        const expected = Math.ceil((body.length - text.length) / 2 + text.length / 4);
        assert.equal(boundPromptTokens(body), expected, `${size} ${shift}`);
      }
    }
  }
  const prose = bytesOf({ content: "so it goes ".repeat(1000) });
  assert.equal(boundPromptTokens(prose), Math.ceil(prose.length / 2));
});

Deno.test("a hostile body of 30 MB is measured within a turn", () => {
  const size = 30_000_000;
  const fillings = ['"', "a", `"${"a".repeat(1023)}`, `"${"a".repeat(1024)}`];
  for (const filling of fillings) {
    const body = new Uint8Array(size);
    const bytes = new TextEncoder().encode(filling);
    for (let at = 0; at < size; at++) body[at] = bytes[at % bytes.length] ?? 0;
    let fastest = Infinity;
    for (let time = 0; time < 3; time++) {
      const fromMs = performance.now();
      boundPromptTokens(body);
      fastest = Math.min(fastest, performance.now() - fromMs);
    }
    assert.ok(fastest < 50, `${fastest} ms for ${filling.slice(0, 3)}`);
  }
});
